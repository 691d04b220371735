"""Judged answers for the tests of labelled, scored and grouped rows."""

from __future__ import annotations

from typing import Any

from rl.base.ratings import AnswerRating
from rl.base.records import JudgedAnswer, Message


def judged(number: int, response: str = "On its way.", *, key: str = "p", **said: Any) -> JudgedAnswer:
    """``ratings``: values only; their ids are 10 × number and what follows."""
    values = said.pop("ratings", ())
    return JudgedAnswer(
        trace_ids=(f"t{number}",),
        prompt_key=key,
        split_key=f"hash of {key}",
        prompt=(Message(role="user", content=f"Question {key}"),),
        response=response,
        ratings=tuple(AnswerRating(10 * number + place, value) for place, value in enumerate(values)),
        **said,
    )
