import pytest
from django.db import IntegrityError, transaction

from rl.models import TrainingRun

pytestmark = pytest.mark.django_db
State = TrainingRun.State


@pytest.fixture
def run(agent) -> TrainingRun:
    return TrainingRun.objects.create(agent=agent, method="dpo")


def same(run: TrainingRun) -> TrainingRun:
    """The same row as another process holds it."""
    return TrainingRun.objects.get(pk=run.pk)


def test_only_one_of_two_claims_wins(run):
    other = same(run)
    assert run.claim()
    assert not other.claim()
    assert (run.state, run.attempt) == (State.RUNNING, 1)
    assert run.started_at is not None


def test_an_agent_has_one_active_run_at_most(run, agent):
    with pytest.raises(IntegrityError), transaction.atomic():
        TrainingRun.objects.create(agent=agent, method="dpo")


def test_a_finished_run_makes_room_for_the_next(run, agent):
    run.claim()
    assert run.finish(State.SUCCEEDED)
    assert TrainingRun.objects.create(agent=agent, method="dpo").state == State.QUEUED


@pytest.mark.parametrize("end", [State.SUCCEEDED, State.FAILED, State.CANCELLED])
def test_a_queued_run_cannot_end_before_it_was_claimed(run, end):
    assert not run.finish(end)
    assert same(run).state == State.QUEUED


@pytest.mark.database
def test_a_process_that_was_given_up_changes_nothing(run):
    run.claim()
    lost = same(run)
    assert run.take_over()
    assert not lost.beat(step=99)
    assert same(run).step == 0


def test_a_lost_attempt_does_not_end_the_run(run):
    run.claim()
    lost = same(run)
    run.take_over()
    assert not lost.finish(State.FAILED, "killed")
    assert (same(run).state, same(run).attempt, same(run).error) == (State.RUNNING, 2, "")


def test_two_reapers_take_over_once(run):
    run.claim()
    first, second = same(run), same(run)
    assert first.take_over()
    assert not second.take_over()


def test_cancelling_a_queued_run_ends_it_at_once(run):
    assert run.cancel()
    assert run.state == State.CANCELLED
    assert not run.claim()


def test_cancelling_a_running_run_asks_it_to_stop(run):
    run.claim()
    assert run.cancel()
    assert (run.state, run.cancel_requested) == (State.RUNNING, True)


def test_a_finished_run_cannot_be_cancelled(run):
    run.claim()
    run.finish(State.SUCCEEDED)
    assert not run.cancel()


@pytest.mark.parametrize(("end", "allowed"), [(State.FAILED, True), (State.CANCELLED, True), (State.SUCCEEDED, False)])
def test_a_stopped_run_can_be_queued_again_and_a_good_one_not(run, end, allowed):
    run.claim()
    run.finish(end, "why")
    assert run.requeue() is allowed
    assert same(run).state == (State.QUEUED if allowed else end)


def test_a_run_that_is_queued_again_has_no_error_any_more(run):
    run.claim()
    run.finish(State.FAILED, "out of memory")
    assert run.requeue()
    assert same(run).error == ""


@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING])
def test_a_stopped_run_waits_while_another_run_of_its_agent_is_active(run, agent, state):
    run.claim()
    run.finish(State.FAILED, "why")
    TrainingRun.objects.create(agent=agent, method="dpo", state=state)
    with transaction.atomic():
        assert not run.requeue()
        assert same(run).state == State.FAILED  # the transaction around it goes on
    assert (run.state, run.error) == (State.FAILED, "why")
