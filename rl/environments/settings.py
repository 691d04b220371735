"""An environment as JSON describes it, so that any process can make the same one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from rl.base.errors import RatchetError, UsageError
from rl.base.leaves import leaf
from rl.base.names import did_you_mean, require_known
from rl.environments import ENVIRONMENTS, environment_class
from rl.environments.base import AgentEnv
from rl.environments.options import option_types, wrong_type
from rl.environments.tools import BaseTool
from rl.environments.tools.corpus import read_corpus
from rl.environments.tools.mcp import servers_of
from rl.environments.tools.web_search import SearchSettings, search_tool

TOOLS = ("search", "mcp")
"""What ``tools`` may name."""


@dataclass(frozen=True, slots=True)
class EnvironmentSettings:
    type: str = "code_exec"
    """A name of ENVIRONMENTS, or ``module:Class``."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the class: ``max_turns``, ``success_reward``, …"""
    tools: Mapping[str, Any] = field(default_factory=dict)
    """Name to settings; they come beside the environment's own tools, or in the place of one with the same name."""
    cache_dir: str = ""
    """Where results of searches over the web are kept."""

    def check(self) -> Self:
        """Raises UsageError for what no environment can be made from, and starts nothing."""
        _check_options(self.type, self.options)
        if self.tools and environment_class(self.type).tools_of_tasks:
            raise UsageError(f"the tools of {self.type} come with its tasks: leave out tools")
        for name in self.tools:
            require_known("entry of tools", name, TOOLS)
        if "search" in self.tools:
            settings = SearchSettings.of(self.tools["search"])
            if settings.corpus and isinstance(settings.corpus, str):
                read_corpus(Path(settings.corpus))
        if "mcp" in self.tools:
            servers_of(self.tools["mcp"])
        return self

    def require_keys(self) -> None:
        """Raises UsageError for a key of the web search that is not in the environment."""
        settings = SearchSettings.of(self.tools.get("search", {}))
        if settings.mode == "web":
            settings.authorization()

    def build(self) -> AgentEnv:
        """Raises UsageError, also for whatever somebody's own class raises."""
        try:
            environment = environment_class(self.type)(**self.options)
        except RatchetError:
            raise
        except Exception as error:
            raise UsageError(f"{self.type} cannot be made: {type(error).__name__}: {error}") from error
        environment.tools = environment.tools.with_tools(self._tools(environment.tools))
        return environment

    def _tools(self, own: Iterable[str]) -> list[BaseTool]:
        """``own``: names of the environment's."""
        tools: list[BaseTool] = []
        if "search" in self.tools:
            settings = SearchSettings.of(self.tools["search"])
            if settings.mode == "web" or settings.corpus or "search" in own:
                tools.append(search_tool(settings, Path(self.cache_dir or ".")))
        if "mcp" in self.tools:
            taken_names = {*own, *(tool.name for tool in tools)}
            tools += leaf("rl.environments.tools.mcp.tool").mcp_tools(servers_of(self.tools["mcp"]), taken_names)
        return tools


def _check_options(name: str, options: Mapping[str, Any]) -> None:
    """Raises UsageError. Only environments of our own are made, others may do anything."""
    kind = environment_class(name)
    types = option_types(kind)
    for key, value in options.items():
        if key not in types:
            raise UsageError(f"{name} has no setting {key!r}{did_you_mean(key, types)}; it has: {', '.join(types)}")
        if right := wrong_type(value, types[key]):
            raise UsageError(f"{name}: {key} must be {right}, not {str(value)[:100]!r}")
    if name in ENVIRONMENTS:
        kind(**options)
