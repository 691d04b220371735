"""Models that may judge answers: the operator's JUDGES_FILE.

Any server that speaks OpenAI's chat completions will do: https://platform.openai.com/docs/api-reference/chat/create
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings

from rl.base.errors import BadFile, JudgeFailed, UsageError
from rl.base.names import unknown_name
from rl.base.outside_files import read_text
from rl.base.slugs import check_slug
from rl.environments.config_file.document import Document, describe_value, read_document

OWN: Final = "own"
"""The judge that learns from people's labels; not a name for a server."""
SENT_ALWAYS: Final = ("model", "messages", "stream", "n")
"""What a request holds whatever ``parameters`` say."""
NUMBERS: Final[Mapping[str, tuple[int, int]]] = {"at_once": (1, 64), "seconds": (1, 3600)}


@dataclass(frozen=True, slots=True)
class JudgeServer:
    name: str
    url: str
    """Up to ``/v1``; ``/chat/completions`` is added."""
    model: str
    key_file: str = ""
    """File that holds the API key."""
    criteria: str = ""
    """What makes an answer good here, in words for the model."""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"temperature": 0, "max_tokens": 512})
    """Sent with every request."""
    at_once: int = 4
    """Requests at the same time."""
    seconds: int = 60
    """The longest silence."""

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
    document = read_document(Path(settings.JUDGES_FILE))
    return {name: _read_server(document, name) for name in document.values}


def find_server(name: str) -> JudgeServer:
    """Raises UsageError for a name that is not registered, BadFile."""
    known = servers()
    if name not in known:
        raise UsageError(f"{unknown_name('judge', name, [OWN, *known])}; the operator registers judges in JUDGES_FILE")
    return known[name]


def _read_server(document: Document, name: str) -> JudgeServer:
    values = document.section(name, [field.name for field in fields(JudgeServer) if field.name != "name"])
    try:
        check_slug(name, "the name of a judge")
        if name == OWN:
            raise UsageError(f"{OWN} is the judge that learns from people's labels: choose another name")
        if missing := [key for key in ("url", "model") if key not in values]:
            raise UsageError(f"needs {missing[0]}")
        for key, value in values.items():
            _check(key, value)
        return JudgeServer(name=name, **{**values, "url": values["url"].rstrip("/")})
    except UsageError as error:
        raise document.refusal_about(str(error), (name,)) from None


def _check(key: str, value: Any) -> None:
    """Raises UsageError."""
    if key in NUMBERS:
        low, high = NUMBERS[key]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise UsageError(f"{key} must be a whole number from {low} to {high}, not {describe_value(value)}")
    elif key == "parameters":
        if not isinstance(value, dict):
            raise UsageError(f"parameters must be a mapping such as {{temperature: 0}}, not {describe_value(value)}")
        if own := sorted({*value} & {*SENT_ALWAYS}):
            raise UsageError(f"parameters: {own[0]} is set by Ratchet")
    elif not isinstance(value, str) or not value.strip():
        raise UsageError(f"{key} must be a text, not {describe_value(value)}")
    elif key == "url":
        try:
            parts = urlsplit(value)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise UsageError(f"url: {error}") from None
        is_web = parts.scheme in ("http", "https") and host
        if not is_web or parts.query or parts.fragment or parts.username is not None:
            raise UsageError(
                f"url must look like http://127.0.0.1:8000/v1, without user name, '?' and '#', not {value!r}"
            )
