"""An item of a queue as a rater sees it, with what it takes to correct an answer by one key or one field: nothing in it
tells which version answered, or what others think."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from rl.collect.feedback.answer_forms import AnswerForm, Field
from rl.config.rubrics import ASKED
from rl.data_formatter.answer_kinds import whole_object
from rl.models import Claim, RatingQueue, Trace, version_name
from rl.models.traces import LENGTH
from rl.queues.votes import LONGEST_TEXT, label
from rl.web.formatting import Page
from rl.web.rating_filters import drawing_of, tags_of

STEPS = 100
"""How many messages, tool calls, steps and tasks are shown, unless somebody asks for all."""
CHARACTERS = 10_000
"""Characters of one text that are shown. A browser takes seconds to lay out a megabyte."""
MOST_ITEMS, MOST_CHARACTERS = 2_000, 500_000
"""What a page shows in lists and in texts, all of them together."""
WHOLE_ITEMS, WHOLE_CHARACTERS = 10_000, 20_000_000
"""The same where somebody asks for all: what is stored may be more than a page can be."""
JSON_PIECES = 300_000
"""Names, values and brackets of all values that a page writes as JSON, which takes a second for a million."""

T = TypeVar("T")


class Excerpt:
    """Cuts what is too long to read, and knows whether it has cut anything."""

    def __init__(self, whole: bool = False, most_characters: int = MOST_CHARACTERS) -> None:
        self.whole, self.cut, self._pieces = whole, False, JSON_PIECES
        self._items = WHOLE_ITEMS if whole else MOST_ITEMS
        self._characters = WHOLE_CHARACTERS if whole else most_characters

    def text(self, text: str) -> str:
        most = self._most_characters
        over = len(text) - most
        self._characters -= min(len(text), most)
        if over <= 0:
            return text
        self.cut = True
        return f"{text[:most]}… ({over:,} more characters)"

    def first(self, items: Iterable[T]) -> list[T]:
        return self._some(list(items), slice(self._most_items))

    def last(self, items: Iterable[T]) -> list[T]:
        items = list(items)
        return self._some(items, slice(max(0, len(items) - self._most_items), None))

    def value(self, value: Any) -> str:
        """JSON, or the text that it is; empty for nothing."""
        if value in (None, "", {}):
            return ""
        return self.text(value if isinstance(value, str) else self._json(value))

    @property
    def _most_items(self) -> int:
        return self._items if self.whole else min(STEPS, self._items)

    @property
    def _most_characters(self) -> int:
        return self._characters if self.whole else min(CHARACTERS, self._characters)

    def _some(self, items: list[T], which: slice) -> list[T]:
        shown = items[which]
        self._items -= len(shown)
        self.cut = self.cut or len(shown) < len(items)
        return shown

    def _json(self, value: Any) -> str:
        """No more of it is written than is shown."""
        pieces, most = [], self._most_characters
        for piece in json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(value):
            pieces.append(piece)
            most -= len(piece)
            self._pieces -= 1
            if most < 0 or self._pieces < 0:
                self.cut = True
                return "".join(pieces)[: self._most_characters - 1] + "…"
        return "".join(pieces)


MOST_BEFORE = 100_000
"""Characters of the messages before a question: some fifty pages."""
_KINDS: dict[str, str] = {"choice": "pair", "text": "edit", "value": "answer"}
"""What a queue asks for, to what the page has."""


def items_of(claims: Sequence[Claim], queue: RatingQueue, form: AnswerForm | None) -> list[dict[str, Any]]:
    """JSON. Two queries less for each where ``trace`` and ``other_trace`` were read with the claim. Questions and answers of
    all are formatted before what came before any, as far as there is time."""
    page = Page()
    items = [_show(claim, queue, page, form) for claim in claims]
    return [{**item, **_before(claim.trace, page)} for item, claim in zip(items, claims, strict=True)]


def _show(claim: Claim, queue: RatingQueue, page: Page, form: AnswerForm | None) -> dict[str, Any]:
    question = claim.trace.question
    return {
        "claim": claim.pk,
        "kind": _KINDS[ASKED[queue.rubric].asks],
        "question": question[:LENGTH],
        "question_html": page.format(question),
        "answers": [
            {"text": editable(answer), "html": page.format(answer.response), "drawing": drawing_of(answer)}
            for answer in shown_sides(claim)
        ],
        "form": controls_of(form, claim.trace, queue.agent.system_prompt),
        "tags": tags_for(queue, claim.trace),
        "expires_at": claim.expires_at.isoformat(),
    }


def _before(trace: Trace, page: Page) -> dict[str, Any]:
    """The last messages before the question, the newest of them whole first, and how many there are besides."""
    prompt, excerpt = trace.prompt, Excerpt(most_characters=MOST_BEFORE)
    question = max((number for number, message in enumerate(prompt) if message["role"] == "user"), default=None)
    others = [message for number, message in enumerate(prompt) if number != question]
    newest = reversed(excerpt.last(others))
    rows = [{"role": message["role"], "html": page.format(excerpt.text(message["content"]))} for message in newest]
    return {"before": rows[::-1], "earlier": len(others) - len(rows)}


def editable(answer: Trace) -> str:
    """Its text; empty where that is longer than an edited one may be."""
    return answer.response if len(answer.response) <= LONGEST_TEXT else ""


def tags_for(queue: RatingQueue, trace: Trace | None) -> list[str]:
    return list(dict.fromkeys([*queue.tags, *tags_of(trace)]))


def shown_sides(claim: Claim) -> list[Trace]:
    """One answer, or two: A, then B."""
    sides = [claim.trace, *([claim.other_trace] if claim.other_trace else [])]
    return sides[::-1] if claim.swapped else sides


def names_of_sides(claim: Claim) -> dict[str, str] | None:
    """Whose answers the sides of a decided pair are; None for anything else."""
    if claim.other_trace is None or claim.state != Claim.State.DECIDED:
        return None
    left, right = (version_name(side.model_version) for side in shown_sides(claim))
    return {"left": left, "right": right}


def decision_of(claim: Any, queue: RatingQueue) -> dict[str, Any]:
    """``claim``: with a ``question``."""
    return {"claim": claim.pk, "label": label(claim, queue.rubric), "question": claim.question or ""}


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
    fields = [_control_of(field, given) for field in form.fields_of(trace.response)]
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


def _control_of(field: Field, given: dict[str, Any]) -> dict[str, Any]:
    """``value`` as the control writes it; ``empty``: what an empty control stands for in JSON, nothing where the field is to
    be left out then."""
    value = given.get(field.name)
    is_text = isinstance(value, str)
    shown = value if is_text else "" if value is None else json.dumps(value, ensure_ascii=False)
    empty = '""' if is_text else "null" if field.name in given else ""
    options = list(dict.fromkeys([*field.options, *([shown] if field.control == "select" and shown else [])]))
    return {"name": field.name, "control": field.control, "options": options, "value": shown, "empty": empty}
