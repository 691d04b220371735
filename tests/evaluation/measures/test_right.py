"""What a version with right answers is tested on: what it did not learn, also what people have corrected since."""

import pytest

from rl.base.records import GeneratedAnswer
from rl.data_formatter.jsonl import UNSEEN, unseen_line
from rl.dataset_builder import DataOptions, freeze
from rl.dataset_builder.accepted_answers import tested_of as keys_tested
from rl.evaluation.held_out import latest_training_set
from rl.evaluation.measures.right import Accepted, accepted_answers
from rl.models import Agent, Deployment, ModelVersion, TrainingRun, TrainingSet
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate

pytestmark = pytest.mark.django_db
CLASSES = ("cash", "cards", "transfers")


def like(agent: Agent, first: int, last: int) -> None:
    for number in range(first, last):
        rate(make_trace(agent, f"Question {number}?", CLASSES[number % 3]), 1)


def train(agent: Agent, name: str) -> ModelVersion:
    """Cross-fitted: adapters answer what is tested, always with cash."""
    frozen = freeze(agent, DataOptions(min_samples=1), method="sft", cross_fits=True)
    version = ModelVersion.objects.create(agent=agent, name=name, base_model="tiny", feedback_count=0)
    values = {"method": "sft", "config": {}, "state": TrainingRun.State.SUCCEEDED}
    run = TrainingRun.objects.create(agent=agent, version=version, training_set=frozen, **values)
    run.directory.mkdir(parents=True, exist_ok=True)
    lines = [unseen_line(key, GeneratedAnswer("cash", 5, 1)) for key in keys_tested(frozen)]
    (run.directory / UNSEEN).write_text("".join(lines))
    return version


def asked(accepted: Accepted) -> set[int]:
    return {int(row["prompt"][0]["content"].split()[1].strip("?")) for row in accepted.rows}


def of_its_own(version: ModelVersion, *compared: ModelVersion | None) -> Accepted:
    training_set = version.run.training_set
    assert isinstance(training_set, TrainingSet)
    return accepted_answers(training_set, version.run, *compared)


def test_what_was_liked_since_the_training_is_tested_beside_what_adapters_answered(agent: Agent, data_dir):
    like(agent, 0, 25)
    version = train(agent, "v1")
    first = of_its_own(version)
    assert (len(first.rows), first.later, len(first.unseen)) == (25, 0, 25)
    like(agent, 25, 31)
    again = of_its_own(version)
    assert (asked(again), again.later, again.learned) == (set(range(31)), 6, 0)
    assert set(again.unseen) == {row["prompt_key"] for row in first.rows}, "it answers the later ones itself"


def test_what_the_version_in_use_has_learned_meanwhile_does_not_count(agent: Agent, data_dir):
    like(agent, 0, 25)
    candidate = train(agent, "v1")
    like(agent, 25, 31)
    Deployment.promote(in_use := train(agent, "v2"))
    like(agent, 31, 40)
    accepted = of_its_own(candidate, in_use)
    assert (asked(accepted), accepted.later, accepted.learned) == (set(range(31, 40)), 9, 25)


def test_a_correction_of_an_answer_that_it_had_learned_tests_nothing(agent: Agent, data_dir):
    like(agent, 0, 25)
    version = train(agent, "v1")
    trace = make_trace(agent, "Question 3?", "cards", model_version=version)
    rate(trace, 1)
    assert of_its_own(version).later == 0


def test_a_cross_fitted_version_is_measured_on_its_own_set_when_there_are_newer_ones(agent: Agent, data_dir):
    like(agent, 0, 25)
    candidate = train(agent, "v1")
    like(agent, 25, 31)
    newest = train(agent, "v2")
    assert latest_training_set(agent, candidate) == candidate.run.training_set
    assert latest_training_set(agent) == newest.run.training_set
    other = accepted_answers(newest.run.training_set, candidate.run, candidate)
    assert (asked(other), other.unseen) == (set(range(25, 31)), {})


def test_of_a_folder_nobody_knows_what_it_learned_so_nothing_later_counts(agent: Agent, data_dir):
    like(agent, 0, 25)
    version = train(agent, "v1")
    like(agent, 25, 31)
    assert accepted_answers(version.run.training_set, None, None).rows == []
