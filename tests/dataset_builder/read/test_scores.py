from statistics import fmean, pstdev

import pytest

from rl.collect.feedback.write import compare, rate
from rl.dataset_builder import DataOptions, freeze
from rl.dataset_builder.read.scores import score_figures
from rl.models import Feedback
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate_prompts

pytestmark = pytest.mark.django_db


def test_they_are_those_of_the_ratings_alone(agent, trace):
    values = (0.1, 0.4, 0.9)
    for number, value in enumerate(values):
        rate(trace, rater=f"r{number}", scale="score", value=value, source="test")
    compare(trace, make_trace(agent, response="Late."), choice="left", rater="a", source="test")
    ids = list(Feedback.objects.values_list("pk", flat=True))
    found = score_figures(ids)
    assert (found["mean"], found["std"]) == (pytest.approx(fmean(values)), pytest.approx(pstdev(values)))
    assert score_figures([]) == {}


def test_a_training_set_keeps_them(agent, data_dir):
    rate_prompts(agent, 12)
    assert freeze(agent, DataOptions()).stats["scores"] == {"mean": 0.5, "std": 0.5}
