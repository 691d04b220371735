"""An environment as JSON describes it, so that any process can make the same one; and what its class takes as settings,
read from the signatures of its ``__init__``."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, get_type_hints

from rl.base.errors import RatchetError, UsageError
from rl.base.leaves import leaf
from rl.base.names import did_you_mean, require_known
from rl.config.fields import wrong_type
from rl.environments import ENVIRONMENTS, environment_class
from rl.environments.base import AgentEnv
from rl.environments.tools import BaseTool
from rl.environments.tools.mcp.settings import servers_of
from rl.environments.tools.search import read_corpus
from rl.environments.tools.web_search.settings import SearchSettings
from rl.environments.tools.web_search.tool import search_tool


def option_types(kind: type[AgentEnv]) -> dict[str, Any]:
    """What may be given by name, and its type; those of the classes it is made from too. Any: not known."""
    types: dict[str, Any] = {}
    for base in kind.__mro__:
        if "__init__" in vars(base) and base is not object:
            try:
                hints = get_type_hints(base.__init__)  # type: ignore[misc]
            except NameError:  # types that are imported for the type checker only
                hints = {}
            parameters = inspect.signature(base.__init__).parameters.values()  # type: ignore[misc]
            names = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
            types = {**{name: hints.get(name, Any) for name in names}, **types}
    return types


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
        kind = environment_class(self.type)
        types = option_types(kind)
        for key, value in self.options.items():
            if key not in types:
                known = f"{did_you_mean(key, types)}; it has: {', '.join(types)}"
                raise UsageError(f"{self.type} has no setting {key!r}{known}")
            if right := wrong_type(value, types[key]):
                raise UsageError(f"{self.type}: {key} must be {right}, not {str(value)[:100]!r}")
        if self.type in ENVIRONMENTS:  # others may do anything when they are made
            kind(**self.options)
        if self.tools and kind.tools_of_tasks:
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
        own, tools = set(environment.tools), list[BaseTool]()
        if "search" in self.tools:
            settings = SearchSettings.of(self.tools["search"])
            if settings.mode == "web" or settings.corpus or "search" in own:
                tools.append(search_tool(settings, Path(self.cache_dir or ".")))
        if "mcp" in self.tools:
            taken_names = {*own, *(tool.name for tool in tools)}
            tools += leaf("rl.environments.tools.mcp.tool").mcp_tools(servers_of(self.tools["mcp"]), taken_names)
        environment.tools = environment.tools.with_tools(tools)
        return environment
