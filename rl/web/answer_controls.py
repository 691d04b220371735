"""An answer with what it takes to correct it by one key or one field, as JSON for pages."""

from __future__ import annotations

import json
from typing import Any

from rl.collect.feedback.answer_forms import AnswerForm, Field
from rl.data_formatter.answer_kinds import whole_object
from rl.models import Trace
from rl.web.drawings import drawing_of


def controls_of(form: AnswerForm | None, trace: Trace, system_prompt: str) -> dict[str, Any] | None:
    """``answer``, as the set spells it and empty where it is none of it; or ``fields``. None: only a thumb judges it."""
    if (
        form is None
        or trace.tool_calls
        or drawing_of(trace)
        or not form.suits(trace.prompt, system_prompt, trace.response)
    ):
        return None
    if form.values:
        return {"kind": "closed", "answer": form.spell(trace.response)}
    given = whole_object(trace.response) or {}
    fields = [_show(field, given) for field in form.fields_of(trace.response)]
    return {"kind": "structured", "fields": fields}


def likely_values(form: AnswerForm | None, trace: Trace) -> list[dict[str, Any]]:
    """The values of the set with the ``share`` that the gateway gave each of them, the likeliest first; None where it told
    none."""
    chosen = trace.details.get("chosen")
    shares = chosen.get("shares") if isinstance(chosen, dict) else None
    items = shares.items() if isinstance(shares, dict) else ()
    known = {value: share for value, share in items if isinstance(share, float) and 0 <= share <= 1}
    values = sorted(form.values if form else (), key=lambda value: -known.get(value, 0.0))
    return [{"text": value, "share": known.get(value)} for value in values]


def _show(field: Field, given: dict[str, Any]) -> dict[str, Any]:
    """``value`` as the control writes it; ``empty``: what an empty control stands for in JSON, nothing where the field is to
    be left out then."""
    value = given.get(field.name)
    is_text = isinstance(value, str)
    shown = value if is_text else "" if value is None else json.dumps(value, ensure_ascii=False)
    empty = '""' if is_text else "null" if field.name in given else ""
    options = list(dict.fromkeys([*field.options, *([shown] if field.control == "select" and shown else [])]))
    return {"name": field.name, "control": field.control, "options": options, "value": shown, "empty": empty}
