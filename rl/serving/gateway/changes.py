"""What a server may refuse of a request that others take, and how the same is asked without it.

Usage in streams is asked for by the gateway itself, and many servers are strict about fields that they do not know; of the
two names for the length each is refused by somebody. A server of ours takes all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rl.serving.gateway.chat_request import LENGTHS
from rl.serving.gateway.refusals import Refusal

REFUSES: Final = (400, 422)
SCHEMA: Final = "response_format"
"""The field of the agent's schema, where it goes along."""
Body = Mapping[str, Any]


def _without_usage(body: Body) -> Body:
    return {"stream_options": None}


def _rename(old: str, new: str) -> Callable[[Body], Body]:
    return lambda body: {new: body.get(new, body[old]), old: None}


_CHANGES: Final[Mapping[str, Callable[[Body], Body]]] = {
    "stream_options": _without_usage,
    "max_tokens": _rename(*LENGTHS),
    "max_completion_tokens": _rename(*reversed(LENGTHS)),
}
"""By the field that is refused: the fields with other values, None for none."""


def apply(body: Body, changes: Sequence[str]) -> dict[str, Any]:
    for name in changes:
        if name in _CHANGES and body.get(name) is not None:
            body = {**body, **_CHANGES[name](body)}
    return {name: value for name, value in body.items() if value is not None}


def next_change(refusal: Refusal, body: Body, changes: Sequence[str], *, is_ours: bool, has_schema: bool) -> str | None:
    """What to change of ``body``, to which ``changes`` were made, so that it may be taken: what the refusal names, else what
    the client has not asked for. None: it is the client's own fault, or nothing is left."""
    left = [name for name in _CHANGES if body.get(name) is not None and not is_ours]
    if any(name in LENGTHS for name in changes):
        left = [name for name in left if name not in LENGTHS]
    left += [SCHEMA] if has_schema else []
    text = f"{refusal.param or ''} {refusal.message}"
    named = sorted((name for name in left if name in text), key=text.index)
    says_what = refusal.param or any(name in text for name in (*_CHANGES, SCHEMA))
    unasked = [] if says_what else [name for name in left if name not in LENGTHS]
    return next(iter([*named, *unasked]), None) if refusal.status in REFUSES else None
