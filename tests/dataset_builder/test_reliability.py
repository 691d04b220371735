import random

import pytest

from rl.dataset_builder.read.groups import Tally
from rl.dataset_builder.read.ratings import DatabaseSource
from rl.models import Agent, Feedback
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db
RATERS = [f"user:{number}" for number in range(5)]


def rate_all(agent: Agent, answers: int) -> dict[str, bool]:
    """Trace to whether it is good. The first two of five raters say the opposite, and three rate each answer."""
    rng, truth, rows = random.Random(3), {}, []
    for number in range(answers):
        trace = make_trace(agent, f"question {number}")
        truth[str(trace.pk)] = good = number % 2 == 0
        for rater in rng.sample(RATERS, 3):
            value = float(good != (rater in RATERS[:2]))
            fields = {"kind": "rating", "scale": "thumb", "rater": rater, "raw_value": value, "value": value}
            rows.append(Feedback(agent=agent, trace=trace, **fields))
    Feedback.objects.bulk_create(rows)
    return truth


def read(agent: Agent, **options: bool) -> dict[str, str]:
    groups = DatabaseSource(agent, **options).groups(Tally())
    return {answer.trace_id: answer.verdict for group in groups for answer in group.answers}


def test_a_majority_of_those_who_are_mostly_wrong_is_outvoted(agent: Agent):
    truth = rate_all(agent, 60)
    right = {trace: "up" if good else "down" for trace, good in truth.items()}
    assert read(agent) == right
    assert read(agent, weigh=False) != right


def test_with_few_answers_the_majority_counts(agent: Agent):
    rate_all(agent, 19)
    assert read(agent) == read(agent, weigh=False)
