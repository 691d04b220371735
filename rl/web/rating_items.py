"""An item of a queue as a rater sees it: nothing in it tells which version answered, or what others think."""

from __future__ import annotations

from typing import Any

from rl.base.records import Message
from rl.models import Claim, RatingQueue, Trace, version_name
from rl.queues.progress import label
from rl.web.drawings import drawing_of, tags_of
from rl.web.markdown import render

QUESTION = 200
"""Characters of a question in the list of decisions."""
_KINDS: dict[str, str] = {RatingQueue.Rubric.PAIR: "pair", RatingQueue.Rubric.EDIT: "edit"}


def item_of(claim: Claim, queue: RatingQueue) -> dict[str, Any]:
    """JSON. Two queries less where ``trace`` and ``other_trace`` were read with the claim."""
    trace = claim.trace
    before, question = _split(trace.prompt)
    return {
        "claim": claim.pk,
        "kind": _KINDS.get(queue.rubric, "answer"),
        "question": question,
        "question_html": render(question),
        "before": [{"role": message["role"], "html": render(message["content"])} for message in before],
        "answers": [
            {"text": answer.response, "html": render(answer.response), "drawing": drawing_of(answer)}
            for answer in shown_sides(claim)
        ],
        "tags": tags_for(queue, trace),
        "expires_at": claim.expires_at.isoformat(),
    }


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


def decision_of(claim: Claim, queue: RatingQueue) -> dict[str, Any]:
    return {"claim": claim.pk, "label": label(claim, queue.rubric), "question": claim.trace.question[:QUESTION]}


def _split(prompt: list[Message]) -> tuple[list[Message], str]:
    """What came before the question, and the question: the last message of the user."""
    at = next((number for number in reversed(range(len(prompt))) if prompt[number]["role"] == "user"), None)
    others = [message for number, message in enumerate(prompt) if number != at]
    return others, "" if at is None else prompt[at]["content"]
