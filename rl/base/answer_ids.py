"""The ids under which the gateway gives answers: a trace's own, and the forms that dialects of the API make of it."""

import re
from typing import Final
from uuid import UUID

_OF_DIALECTS: Final = re.compile(
    r"(?:resp_|msg_)[0-9a-f]{32}|(?:cmpl-|chatcmpl-)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)


def as_id(name: str) -> UUID | None:
    """Only as the gateway writes it: what else ``UUID`` reads, such as braces, is another name."""
    if _OF_DIALECTS.fullmatch(name):
        return UUID(re.split("[_-]", name, maxsplit=1)[1])
    try:
        trace_id = UUID(name)
    except ValueError:
        return None
    return trace_id if str(trace_id) == name else None


def stored_name(name: str) -> str:
    """The external id of the gateway's answer with this id; any other name as it is."""
    return str(as_id(name) or name)
