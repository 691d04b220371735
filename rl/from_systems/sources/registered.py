"""The operator's SOURCES_FILE: which systems are asked, with whose key, and whose answers theirs are."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.conf import settings

from rl.base.errors import UsageError
from rl.base.names import unknown_name
from rl.base.slugs import VARIABLE, check_slug
from rl.collect.importers.langfuse_score import read_scales
from rl.config.fields import check_fields, check_server_url
from rl.environments.config_file import read_document
from rl.environments.variables import require_texts

SYSTEMS: Final = {
    "langfuse": "rl.from_systems.sources.langfuse",
    "openwebui": "rl.from_systems.sources.openwebui",
}
"""Name of a system to the module that asks it: ``list_all`` for what there is since a time, ``fetch`` for one of it, and
``read`` makes records of what was fetched."""


@dataclass(frozen=True, slots=True)
class FeedbackSource:
    name: str
    system: str = ""
    url: str = ""
    key_env: str = ""
    """The environment variable that holds the key, in the process of the queue."""
    agent: str = ""
    """Whose answers these are; it is made if there is none."""
    scales: Sequence[str] = ()
    """What Langfuse's scores mean: ``user-rating=1..5``."""

    def __post_init__(self) -> None:
        """Raises UsageError."""
        check_fields(self)
        if self.system not in SYSTEMS:
            raise UsageError(f"system: {unknown_name('system', self.system, SYSTEMS)}")
        if not VARIABLE.fullmatch(self.key_env):
            raise UsageError("key_env is the name of an environment variable, not the key itself")
        check_slug(self.agent, "agent")
        if self.scales and self.system != "langfuse":
            raise UsageError("scales are for scores of langfuse")
        read_scales(require_texts("scales", self.scales, "[user-rating=1..5]"))
        object.__setattr__(self, "url", check_server_url(self.url, "https://chat.example.org"))

    def key(self) -> str:
        """Raises UsageError where the variable is empty."""
        if key := os.environ.get(self.key_env, "").strip():
            return key
        raise UsageError(f"the variable {self.key_env} of source {self.name} is empty: set it where the queue runs")


def sources() -> dict[str, FeedbackSource]:
    """By name; none without a SOURCES_FILE. Raises BadFile."""
    if not settings.SOURCES_FILE:
        return {}
    return read_document(Path(settings.SOURCES_FILE)).read_records(FeedbackSource, "source")


def find_source(name: str) -> FeedbackSource:
    """Raises UsageError for a name that is not registered, BadFile."""
    known = sources()
    if name not in known:
        raise UsageError(f"{unknown_name('source', name, known)}; the operator registers sources in SOURCES_FILE")
    return known[name]
