"""Models that may judge answers: the operator's JUDGES_FILE.

Any server that speaks OpenAI's chat completions will do: https://platform.openai.com/docs/api-reference/chat/create"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from rl.base.errors import BadFile, JudgeFailed, UsageError
from rl.base.names import unknown_name
from rl.base.outside_files import read_text
from rl.config.fields import check_fields, check_server_url, within
from rl.environments.config_file import read_document

OWN: Final = "own"
"""The judge that learns from people's labels; not a name for a server."""
SENT_ALWAYS: Final = ("model", "messages", "stream", "n")
"""What a request holds whatever ``parameters`` say."""


@dataclass(frozen=True, slots=True)
class JudgeServer:
    name: str
    url: str = ""
    """Up to ``/v1``; ``/chat/completions`` is added."""
    model: str = ""
    key_file: str = ""
    """File that holds the API key."""
    criteria: str = ""
    """What makes an answer good here, in words for the model."""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"temperature": 0, "max_tokens": 512})
    """Sent with every request."""
    at_once: int = within(1, 64, 4)
    """Requests at the same time."""
    seconds: int = within(1, 3600, 60)
    """The longest silence."""

    def __post_init__(self) -> None:
        """Raises UsageError."""
        check_fields(self)
        if self.name == OWN:
            raise UsageError(f"{OWN} is the judge that learns from people's labels: choose another name")
        if missing := [key for key in ("url", "model") if not getattr(self, key).strip()]:
            raise UsageError(f"needs {missing[0]}")
        if own := sorted({*self.parameters} & {*SENT_ALWAYS}):
            raise UsageError(f"parameters: {own[0]} is set by Ratchet")
        object.__setattr__(self, "url", check_server_url(self.url, "http://127.0.0.1:8000/v1"))

    def key(self) -> str:
        """Raises JudgeFailed where the file cannot be read."""
        if not self.key_file:
            return ""
        try:
            return read_text(Path(self.key_file).expanduser()).strip()
        except BadFile as error:
            raise JudgeFailed(f"the key of judge {self.name} cannot be read: {error}") from None


def servers() -> dict[str, JudgeServer]:
    """By name; none without a JUDGES_FILE. Raises BadFile."""
    if not settings.JUDGES_FILE:
        return {}
    return read_document(Path(settings.JUDGES_FILE)).read_records(JudgeServer, "judge")


def find_server(name: str) -> JudgeServer:
    """Raises UsageError for a name that is not registered, BadFile."""
    known = servers()
    if name not in known:
        raise UsageError(f"{unknown_name('judge', name, [OWN, *known])}; the operator registers judges in JUDGES_FILE")
    return known[name]
