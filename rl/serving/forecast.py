"""What an agent's judge says of two answers to a past question, asked by itself: a forecast of which one people prefer."""

import asyncio
from typing import Final

from rl.models import Agent
from rl.serving import judge_process, judge_server
from rl.serving.gateway.best_of import Unjudged, rank, rate
from rl.serving.gateway.routing import KnownJudge

LONGEST: Final = 20_000
"""Characters that are read of a text: the judge reads fewer tokens."""


def compare(agent: Agent, question: str, old: str, new: str) -> bool | None:
    """Whether the judge prefers the new answer; None where both are the same. One that is broken loses to one that is not.
    A judge that does not run is started. Raises UsageError where there is none or it cannot run, and Unjudged where it does
    not answer yet."""
    label_model = judge_server.require_judge(agent)
    judge_server.wake(agent)
    if problem := judge_server.find_problem(agent):
        raise Unjudged(problem)
    question, old, new = (text[:LONGEST] for text in (question, old, new))
    if old == new:
        return None
    judge = KnownJudge(judge_process.path_of(agent.pk, ".sock"), str(label_model.path), label_model.pk)
    ratings = asyncio.run(rate(judge, [{"role": "user", "content": question}], [old, new]))
    return rank([old, new], ratings)[0] == 1
