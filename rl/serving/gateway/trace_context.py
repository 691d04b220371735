"""Which trace of the client's own monitoring a request belongs to, by W3C Trace Context
(https://www.w3.org/TR/trace-context-2/).

The answer is one span of it: the stored trace names the span, and the version's server gets it as the parent of its own.
"""

import re
import secrets
from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import Headers

_PARENT: Final = re.compile("(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
"""Version, trace, span, flags; later versions may say more behind them."""
_KNOWN_FLAGS: Final = 0b11
"""Sampled, and that the trace id is random; what is not known yet is not passed on."""
_STATE: Final = re.compile(r"[\t\x20-\x7e]{1,512}")


@dataclass(frozen=True, slots=True)
class TraceContext:
    trace_id: str
    """32 hexadecimal digits; spans have 16."""
    parent_span_id: str
    """The client's span that asks."""
    flags: int
    state: str = ""
    """What systems of monitoring tell each other; passed on as it came."""
    span_id: str = field(default_factory=lambda: secrets.token_hex(8))
    """That of the answer."""

    def details(self) -> dict[str, str]:
        """Names them as the details of spans that were sent are named (``rl/collect/otlp/mapping.py``)."""
        return {"trace_id": self.trace_id, "span_id": self.span_id, "parent_span_id": self.parent_span_id}

    def headers(self) -> dict[str, str]:
        """Those of a request to a server."""
        parent = f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"
        return {"traceparent": parent, **({"tracestate": self.state} if self.state else {})}


def read_context(headers: Headers) -> TraceContext | None:
    """None where there is no ``traceparent``, several, or one that the specification calls invalid."""
    given = headers.getlist("traceparent")
    parent = _PARENT.fullmatch(given[0]) if len(given) == 1 else None
    if parent is None:
        return None
    version, trace_id, span_id, flags, rest = parent.groups()
    if version == "00" and rest is not None:
        return None
    state = ",".join(headers.getlist("tracestate"))
    return TraceContext(trace_id, span_id, int(flags, 16) & _KNOWN_FLAGS, state if _STATE.fullmatch(state) else "")
