"""An item of a queue as a rater sees it: nothing in it tells which version answered, or what others think."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rl.base.records import Message
from rl.collect.feedback.answer_forms import AnswerForm
from rl.models import Claim, RatingQueue, Trace, version_name
from rl.models.traces import LENGTH
from rl.queues.progress import label
from rl.queues.votes import LONGEST_TEXT
from rl.web.answer_controls import controls_of
from rl.web.drawings import drawing_of, tags_of
from rl.web.excerpt import Excerpt
from rl.web.formatting import Page

MOST_BEFORE = 100_000
"""Characters of the messages before a question: some fifty pages."""
_KINDS: dict[str, str] = {RatingQueue.Rubric.PAIR: "pair", RatingQueue.Rubric.EDIT: "edit"}


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
        "kind": _KINDS.get(queue.rubric, "answer"),
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
    others, excerpt = _without_question(trace.prompt), Excerpt(most_characters=MOST_BEFORE)
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


def _without_question(prompt: list[Message]) -> list[Message]:
    """The question is the last message of the user."""
    at = next((number for number in reversed(range(len(prompt))) if prompt[number]["role"] == "user"), None)
    return [message for number, message in enumerate(prompt) if number != at]
