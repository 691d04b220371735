"""What a person chooses among, or fills in, to say what an answer should have been: values of a set, or fields of JSON.

A form is read from what people accepted and kept for a minute: raters send a decision every other second."""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.base.records import Message
from rl.collect.feedback.judged_answers import ACCEPTED, read_accepted
from rl.collect.feedback.kept_answers import is_asked_for, read_values
from rl.data_formatter.answer_kinds import find_kind, normalise, whole_object
from rl.models import Agent

KEPT_SECONDS: Final = 60.0
MOST_KEPT: Final = 1000
"""Agents whose forms a process remembers; when there are more, it forgets all and begins anew."""
MOST_FIELDS: Final = 40
"""Nobody fills in a larger form."""
MOST_OPTIONS: Final = 12
"""Values of a field that are chosen from a list."""
LONGEST: Final = 20_000
"""Characters of an answer that is JSON."""
_MOST_EXACT: Final = 2**53
"""Browsers round whole numbers beyond it; those, and NaN, are written as they stand in the answer."""
Control = Literal["text", "number", "checkbox", "select", "json"]


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    control: Control
    options: tuple[str, ...] = ()
    """Those that a select offers."""


@dataclass(frozen=True, slots=True)
class AnswerForm:
    values: tuple[str, ...] = ()
    """The closed set, in an order that stays; empty where the answers are JSON."""
    listed: tuple[str, ...] = ()
    """As in ClosedAnswers."""
    fields: tuple[Field, ...] = ()
    """That most accepted answers have."""

    def suits(self, prompt: Sequence[Message], system_prompt: str, response: str) -> bool:
        """Whether the answer to this prompt is to be corrected by it."""
        if self.values:
            return is_asked_for(self.listed, prompt, system_prompt)
        return len(response) <= LONGEST and 0 < len(self.fields_of(response)) <= MOST_FIELDS

    def spell(self, text: str) -> str:
        """The value of the set that a text says; empty where it says none."""
        return next((value for value in self.values if normalise(value) == normalise(text)), "")

    def fields_of(self, response: str) -> tuple[Field, ...]:
        """Those of the answer in its order, then those that most accepted answers have."""
        given = whole_object(response) or {}
        known = {field.name: field for field in self.fields}
        own = [_fit(known.get(name), name, value) for name, value in given.items()]
        return (*own, *(field for field in self.fields if field.name not in given))

    def judge(self, text: str, response: str) -> dict[str, Any]:
        """What it means that the answer should have been ``text``: ``value`` 1 where it was, else 0 and ``text``, as the set
        spells it. Raises UsageError for what is none of the set, or no object."""
        if self.values:
            spelled = self.spell(text)
            require_known("answer", spelled or text, self.values)
            is_right, wanted = normalise(response) == normalise(spelled), spelled
        else:
            if len(text) > LONGEST or whole_object(text) is None:
                raise UsageError(
                    f"text: a JSON object of at most {LONGEST} characters is wanted, as the agent's answers are"
                )
            wanted = text.strip()
            is_right = json.dumps(whole_object(text), sort_keys=True) == json.dumps(
                whole_object(response), sort_keys=True
            )
        return {"value": 1.0} if is_right else {"value": 0.0, "text": wanted}


def find_form(agent: Agent, *, fresh: bool = False) -> AnswerForm | None:
    """None where answers are free, or not known to be anything else. ``fresh``: read now. Three queries at most."""
    key = (agent.pk, agent.created_at, agent.answer_kind, tuple(agent.answer_values), agent.system_prompt)
    read_at, form = _KEPT.get(key, (float("-inf"), None))
    if fresh or time.monotonic() - read_at > KEPT_SECONDS:
        if len(_KEPT) >= MOST_KEPT:
            _KEPT.clear()
        form = _read_form(agent)
        _KEPT[key] = (time.monotonic(), form)
    return form


def judge_text(agent: Agent, text: str, response: str) -> dict[str, Any]:
    """``AnswerForm.judge`` by the agent's form, which is read again where it knows no such answer. Raises UsageError."""
    form = find_form(agent)
    if form is None or (form.values and not form.spell(text)):
        form = find_form(agent, fresh=True)
    if form is None:
        raise UsageError(
            f"text: answers of {agent} are neither of a closed set nor JSON; a queue of edits takes any text"
        )
    return form.judge(text, response)


_KEPT: dict[tuple[Any, ...], tuple[float, AnswerForm | None]] = {}


def _read_form(agent: Agent) -> AnswerForm | None:
    if agent.answer_kind == Agent.AnswerKind.FREE:
        return None
    values, listed = read_values(agent)
    if values:
        return AnswerForm(values if listed or agent.answer_values else _sort(values), listed)
    answers = [accepted.answer for accepted in read_accepted(agent, ACCEPTED)]
    kind = find_kind(answers, agent.answer_kind)
    if kind.kind != "structured" or len(kind.fields) > MOST_FIELDS:
        return None
    objects = [value for answer in answers if (value := whole_object(answer))]
    return AnswerForm(
        fields=tuple(_field(name, [value[name] for value in objects if name in value]) for name in kind.fields)
    )


def _field(name: str, values: Sequence[Any]) -> Field:
    """By the values that people accepted."""
    control: Control = next((_control(value) for value in values if value is not None), "text")
    texts = [value for value in values if isinstance(value, str)]
    options = _sort(set(texts))
    if control == "text" and len(options) <= MOST_OPTIONS and find_kind(texts).kind == "closed":
        return Field(name, "select", options)
    return Field(name, control)


def _sort(values: Iterable[str]) -> tuple[str, ...]:
    """By how often they were given, keys would change while people rate."""
    return tuple(sorted(values, key=str.casefold))


def _fit(field: Field | None, name: str, value: Any) -> Field:
    """The field, unless it cannot hold the value."""
    wanted = _control(value)
    holds = field is not None and (value is None or field.control in (wanted, {"text": "select"}.get(wanted)))
    return field if field is not None and holds else Field(name, wanted)


def _control(value: Any) -> Control:
    if isinstance(value, bool):
        return "checkbox"
    if isinstance(value, (int, float)) and -_MOST_EXACT <= value <= _MOST_EXACT:
        return "number"
    return "text" if isinstance(value, str) else "json"
