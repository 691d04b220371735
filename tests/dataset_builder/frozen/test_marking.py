import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rl.dataset_builder import DataOptions, freeze, mark, reclaim, release
from rl.models import Feedback, ModelVersion, TrainingRun
from tests.dataset_builder.ratings import rate_prompts

ONE = DataOptions(min_samples=1, val_split=0)


def waiting(agent) -> int:
    return Feedback.objects.filter(agent=agent, training_set__isnull=True).count()


@pytest.mark.database
def test_released_feedback_waits_again(agent, data_dir):
    rate_prompts(agent, 2)
    frozen = freeze(agent, ONE)
    assert release(frozen) == 4
    assert waiting(agent) == 4
    assert release(frozen) == 0


def test_release_leaves_what_earlier_sets_have_read(agent, data_dir):
    rate_prompts(agent, 2)
    freeze(agent, ONE)
    rate_prompts(agent, 1, start=2)
    assert release(freeze(agent, ONE)) == 2
    assert waiting(agent) == 2


def test_what_a_finished_run_has_learned_from_does_not_wait_again(agent, data_dir):
    rate_prompts(agent, 2)
    frozen = freeze(agent, ONE)
    TrainingRun.objects.create(agent=agent, method="dpo", training_set=frozen, state=TrainingRun.State.SUCCEEDED)
    assert release(frozen) == 0
    assert waiting(agent) == 0


def test_what_a_version_has_learned_from_does_not_wait_again_although_its_run_failed_later(agent, data_dir):
    rate_prompts(agent, 2)
    frozen = freeze(agent, ONE)
    version = ModelVersion.objects.create(agent=agent, name="v4", base_model="tiny", feedback_count=4)
    TrainingRun.objects.create(agent=agent, method="dpo", training_set=frozen, version=version, state="failed")
    assert release(frozen) == 0
    assert waiting(agent) == 0


def test_reclaim_undoes_release_but_takes_nothing_new(agent, data_dir):
    rate_prompts(agent, 2)
    frozen = freeze(agent, ONE)
    release(frozen)
    rate_prompts(agent, 1, start=2)
    assert reclaim(frozen) == 4
    assert waiting(agent) == 2


def test_marking_works_in_chunks(agent, data_dir, monkeypatch):
    monkeypatch.setattr("rl.dataset_builder.frozen.marking.CHUNK", 3)
    events = rate_prompts(agent, 5)
    frozen = freeze(agent, ONE)
    release(frozen)
    with CaptureQueriesContext(connection) as queries:
        assert mark(frozen, [event.pk for event in events]) == 10
    assert sum(query["sql"].startswith("UPDATE") for query in queries) == 4
