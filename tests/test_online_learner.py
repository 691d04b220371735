from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone

from rl import online_learner
from rl.base.errors import RunConflict, UsageError
from rl.collect.feedback import write as events
from rl.models import Agent, ApiKey, Feedback, TrainingRun, TrainingSet
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db
State = TrainingRun.State


@pytest.fixture(autouse=True)
def _enabled(settings):
    settings.ENABLE_ONLINE_LEARNING = True


@pytest.fixture
def agent(db) -> Agent:
    return Agent.objects.create(name="support-chat", min_samples_to_retrain=4)


def rate_pairs(agent: Agent, count: int, start: int = 0) -> None:
    """``count`` prompts, each with one answer that is liked and one that is not: two ratings a prompt."""
    for number in range(start, start + count):
        for value in (0.0, 1.0):
            trace = make_trace(agent, f"Question {number}?", f"Answer {number} {value}")
            Feedback.objects.create(
                agent=agent, trace=trace, kind="rating", rater="ann", scale="thumb", raw_value=value, value=value
            )


def rate_alone(agent: Agent, count: int) -> None:
    """``count`` prompts with one answer and one thumb each, every other one up."""
    for number in range(count):
        trace, value = make_trace(agent, f"Question {number}?", f"Answer {number}"), float(number % 2)
        Feedback.objects.create(
            agent=agent, trace=trace, kind="rating", rater="ann", scale="thumb", raw_value=value, value=value
        )


def finished_run(agent: Agent, state: State, hours_ago: float, trigger: str = "online") -> TrainingRun:
    run = TrainingRun.objects.create(agent=agent, method="dpo", trigger=trigger)
    run.claim()
    run.finish(state)
    TrainingRun.objects.filter(pk=run.pk).update(finished_at=timezone.now() - timedelta(hours=hours_ago))
    return run


def learned(agent: Agent) -> None:
    """Marks all that waits as seen by a training set."""
    seen = TrainingSet.objects.create(
        agent=agent,
        method="dpo",
        content_hash=str(TrainingSet.objects.count()),
        train_rows=1,
        heldout_rows=1,
        feedback_count=1,
        val_split=0.2,
    )
    online_learner.waiting_feedback(agent).update(training_set=seen)


def test_nothing_is_due_before_enough_ratings_wait(agent):
    rate_pairs(agent, 1)
    assert online_learner.tick() == []


def test_enough_ratings_start_one_run(agent):
    rate_pairs(agent, 2)
    (run,) = online_learner.tick()
    assert (run.agent, run.state, run.trigger) == (agent, State.QUEUED, TrainingRun.Trigger.ONLINE)


def test_ratings_that_stand_alone_train_by_themselves(agent):
    """As widgets and gateways give them: no prompt has two answers, so there is no pair."""
    rate_alone(agent, 12)
    (run,) = online_learner.tick()
    assert run.method == "mpo"


@pytest.mark.database
def test_after_the_interval_ratings_that_stand_alone_are_enough(agent):
    Agent.objects.update(min_samples_to_retrain=100)
    rate_alone(agent, 12)
    finished_run(agent, State.SUCCEEDED, hours_ago=25)
    assert [run.method for run in online_learner.tick()] == ["mpo"]


@pytest.mark.database
def test_a_failed_run_is_told_with_its_reason_and_when_it_is_tried_again(agent):
    rate_pairs(agent, 4)
    run = finished_run(agent, State.FAILED, hours_ago=1)
    TrainingRun.objects.update(error="the disk is full")
    reason = online_learner.get_online_learner("support-chat").get_status().reason
    again = "tried again when new ratings have come, or by 'Retrain now'"
    assert reason == f"run {run.pk} failed: the disk is full; {again}"


def test_a_second_tick_starts_no_second_run(agent):
    rate_pairs(agent, 2)
    online_learner.tick()
    rate_pairs(agent, 4, start=10)
    assert online_learner.tick() == []
    assert agent.runs.count() == 1


def test_ratings_that_a_run_has_learned_from_do_not_count_again(agent):
    rate_pairs(agent, 4)
    learned(agent)
    finished_run(agent, State.SUCCEEDED, hours_ago=0)
    rate_pairs(agent, 1, start=10)
    assert online_learner.get_online_learner("support-chat").get_status().buffer_size == 2
    assert online_learner.tick() == []


def test_ratings_that_arrive_during_training_start_the_next_run(agent):
    rate_pairs(agent, 4)
    learned(agent)
    rate_pairs(agent, 2, start=10)
    finished_run(agent, State.SUCCEEDED, hours_ago=0)
    assert len(online_learner.tick()) == 1


@pytest.mark.database
def test_superseded_and_retracted_ratings_do_not_count(agent):
    rate_pairs(agent, 4)
    Feedback.objects.update(is_current=False)
    assert online_learner.tick() == []


def test_after_the_interval_fewer_ratings_are_enough(agent):
    rate_pairs(agent, 1)
    finished_run(agent, State.SUCCEEDED, hours_ago=25)
    assert len(online_learner.tick()) == 1


def test_the_interval_starts_nothing_without_a_trainable_pair(agent):
    trace = make_trace(agent)
    Feedback.objects.create(agent=agent, trace=trace, kind="rating", rater="ann", scale="thumb", raw_value=1, value=1.0)
    finished_run(agent, State.SUCCEEDED, hours_ago=25)
    assert online_learner.tick() == []
    reason = online_learner.get_online_learner("support-chat").get_status().reason
    assert reason == "what waits gives no row; 'manage.py training_plan --agent support-chat' says what can use it"


@pytest.mark.database
def test_the_interval_starts_nothing_without_new_ratings(agent):
    rate_pairs(agent, 4)
    learned(agent)
    finished_run(agent, State.SUCCEEDED, hours_ago=100)
    assert online_learner.tick() == []


@pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED])
def test_a_run_that_did_not_succeed_is_tried_again_when_new_ratings_have_come(agent, state):
    rate_pairs(agent, 4)
    finished_run(agent, state, hours_ago=100)
    assert online_learner.tick() == [], "the same ratings would fail again"
    rate_pairs(agent, 2, start=10)
    assert len(online_learner.tick()) == 1


def test_after_a_failure_and_the_interval_one_new_pair_is_enough(agent):
    rate_pairs(agent, 4)
    finished_run(agent, State.FAILED, hours_ago=25)
    rate_pairs(agent, 1, start=10)
    assert len(online_learner.tick()) == 1


def test_what_is_missing_is_told_in_numbers(agent):
    rate_pairs(agent, 1)
    reason = online_learner.get_online_learner("support-chat").get_status().reason
    assert reason == "2 of 4 ratings that start a run wait"


def test_a_failed_run_by_hand_does_not_hold_the_learner_back(agent):
    rate_pairs(agent, 4)
    finished_run(agent, State.FAILED, hours_ago=1, trigger="manual")
    assert len(online_learner.tick()) == 1


def test_it_is_off_unless_the_site_turns_it_on(agent, settings):
    settings.ENABLE_ONLINE_LEARNING = False
    rate_pairs(agent, 4)
    assert online_learner.tick() == []


def test_one_agent_can_be_left_out(agent):
    rate_pairs(agent, 4)
    Agent.objects.update(online_learning=False)
    assert online_learner.tick() == []


def test_each_agent_has_its_own_count(agent):
    other = Agent.objects.create(name="other", min_samples_to_retrain=4)
    rate_pairs(agent, 1)
    rate_pairs(other, 2)
    assert [run.agent for run in online_learner.tick()] == [other]


def test_a_person_may_start_a_run_early_but_not_a_second_one(agent):
    learner = online_learner.get_online_learner("Support-Chat")
    assert learner.trigger_retrain().state == State.QUEUED
    with pytest.raises(RunConflict, match="in progress"):
        learner.trigger_retrain()


def test_the_run_exports_as_the_agent_says_and_deploys_nothing_by_default(agent):
    run = online_learner.OnlineLearner(agent).trigger_retrain()
    assert (run.options["export"], run.options["quantization"], run.options["deploy"]) == (True, "q8_0", "")


def test_feedback_is_counted_as_soon_as_it_is_added(agent):
    learner = online_learner.OnlineLearner(agent)
    learner.add_feedback(make_trace(agent), rater="ann", scale="thumb", value=1)
    assert learner.get_status().buffer_size == 1


def test_feedback_on_another_agents_trace_is_refused(agent):
    foreign = make_trace(Agent.objects.create(name="other"))
    with pytest.raises(UsageError, match="does not belong to support-chat"):
        online_learner.OnlineLearner(agent).add_feedback(foreign, rater="ann", scale="thumb", value=1)


def test_an_unknown_agent_is_an_error():
    with pytest.raises(UsageError, match="unknown agent 'nobody'"):
        online_learner.get_online_learner("nobody")


def test_switching_it_on_sets_the_agents_numbers(agent):
    online_learner.init_online_learner("support-chat", min_samples=7, retrain_interval_hours=2)
    agent.refresh_from_db()
    assert (agent.online_learning, agent.min_samples_to_retrain, agent.retrain_interval_hours) == (True, 7, 2)


def test_asking_is_cheap_however_many_ratings_there_are(agent, django_assert_max_num_queries):
    rate_pairs(agent, 30)
    with django_assert_max_num_queries(3):
        online_learner.OnlineLearner(agent).get_status()


def test_an_agent_with_broken_settings_does_not_hold_the_others_back(agent):
    broken = Agent.objects.create(name="broken", min_samples_to_retrain=4, training_overrides={"epochs": "three"})
    rate_pairs(broken, 2)
    rate_pairs(agent, 2)
    assert [run.agent for run in online_learner.tick()] == [agent]


def test_an_older_run_that_was_resumed_is_the_one_in_progress(agent):
    resumed = TrainingRun.objects.create(agent=agent, method="dpo", state=State.FAILED)
    finished_run(agent, State.FAILED, hours_ago=100, trigger="manual")
    rate_pairs(agent, 2)
    assert resumed.requeue()
    status = online_learner.OnlineLearner(agent).get_status()
    assert (status.is_training, status.should_retrain, status.last_run) == (True, False, resumed.pk)


def imported(agent: Agent, count: int) -> None:
    for number in range(count):
        trace = make_trace(agent, f"imported {number}")
        events.rate(trace, rater="import", scale="thumb", value=1, source="openai_chat")


def test_imported_ratings_start_nothing_before_somebody_has_seen_the_plan(agent):
    imported(agent, agent.min_samples_to_retrain + 1)
    assert online_learner.tick() == []
    reason = online_learner.OnlineLearner(agent).get_status().reason
    assert reason.startswith(
        f"{agent.min_samples_to_retrain + 1} imported ratings wait until somebody has seen the plan"
    )
    call_command("training_plan", agent=agent.name, verbosity=0, stdout=StringIO())
    (run,) = online_learner.tick()
    assert run.agent == agent


def test_ratings_of_clients_count_beside_those_that_were_imported(agent):
    imported(agent, agent.min_samples_to_retrain)
    assert online_learner.OnlineLearner(agent).get_status().buffer_size == 0
    key = ApiKey.create(name="server", kind="secret")[0]
    events.rate(make_trace(agent), rater="ann", scale="thumb", value=1, source="command_center", api_key=key)
    assert online_learner.OnlineLearner(agent).get_status().buffer_size == 1


def test_an_agent_that_has_had_a_run_learns_from_what_is_imported_later(agent):
    TrainingRun.objects.create(agent=agent, method="mpo", state=TrainingRun.State.SUCCEEDED)
    imported(agent, agent.min_samples_to_retrain)
    assert len(online_learner.tick()) == 1


# --- answers that are right or wrong --------------------------------------------------------------------------------------


@pytest.fixture
def router(db) -> Agent:
    """Its answers are of a closed set, and nobody has set how many ratings start a run."""
    return Agent.objects.create(name="router")


def correct(agent: Agent, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        trace = make_trace(agent, f"Message {number}?", "I do not know.")
        events.correct(trace, text=("cash", "cards", "transfers")[number % 3], rater="alice", source="api")


def finished_with(agent: Agent, feedback_count: int) -> None:
    """A run has learned from so many, and from all that waits."""
    learned(agent)
    TrainingSet.objects.filter(agent=agent).update(feedback_count=feedback_count)
    run = finished_run(agent, State.SUCCEEDED, hours_ago=0)
    TrainingRun.objects.filter(pk=run.pk).update(training_set=TrainingSet.objects.get(agent=agent))


def status_of(agent: Agent) -> online_learner.LearnerStatus:
    return online_learner.OnlineLearner(agent).get_status()


@pytest.mark.database
def test_twelve_corrections_start_the_first_run_where_answers_are_right_or_wrong(router):
    correct(router, 11)
    assert online_learner.tick() == []
    assert status_of(router).reason == "11 of 12 corrections that start a run of an agent with right answers wait"
    correct(router, 1, start=11)
    status = status_of(router)
    assert (status.should_retrain, status.min_samples) == (True, 12)
    assert status.reason == "12 of 12 corrections that start a run of an agent with right answers"
    assert [run.agent for run in online_learner.tick()] == [router]


def test_likes_and_dislikes_count_among_the_twelve(router):
    correct(router, 8)
    rate_alone(router, 4)
    assert len(online_learner.tick()) == 1


def test_free_answers_take_as_many_ratings_as_ever(router):
    rate_alone(router, 40)
    assert online_learner.tick() == []
    assert status_of(router).reason == "40 of 100 ratings that start a run wait"


@pytest.mark.database
@pytest.mark.parametrize(("learned_from", "needed"), [(12, 4), (40, 10), (1000, 100)])
def test_the_next_run_takes_a_quarter_of_what_the_last_one_learned_from(router, learned_from: int, needed: int):
    correct(router, 12)
    finished_with(router, learned_from)
    assert status_of(router).min_samples == needed
    correct(router, needed - 1, start=12)
    assert online_learner.tick() == []
    correct(router, 1, start=200)
    assert len(online_learner.tick()) == 1


@pytest.mark.parametrize("wanted", [5, 30, 300])
def test_the_number_that_a_person_set_holds(router, wanted: int):
    Agent.objects.update(min_samples_to_retrain=wanted)
    router.refresh_from_db()
    correct(router, 20)
    status = status_of(router)
    assert (status.min_samples, status.should_retrain) == (wanted, wanted < 20)


def test_after_a_failure_the_same_corrections_start_nothing(router):
    correct(router, 12)
    finished_run(router, State.FAILED, hours_ago=1)
    assert online_learner.tick() == []
    correct(router, 12, start=12)
    assert len(online_learner.tick()) == 1


@pytest.mark.database
def test_an_early_run_waits_until_the_machine_is_idle(router, agent, monkeypatch):
    correct(router, 12)
    other = TrainingRun.objects.create(agent=agent, method="dpo", state=State.RUNNING)
    assert online_learner.tick() == []
    assert status_of(router).reason.endswith(" wait; it begins when no other run is at work")
    other.finish(State.SUCCEEDED)
    monkeypatch.setattr(online_learner.machine, "busy", lambda: True)
    assert online_learner.tick() == []
    assert status_of(router).reason.endswith(" wait; it begins when the gateway is quiet")
    correct(router, 88, start=12)
    assert len(online_learner.tick()) == 1, "as many as start a run of any agent"


def test_of_two_agents_that_are_due_early_one_begins(router):
    second = Agent.objects.create(name="second-router")
    correct(router, 12)
    correct(second, 12)
    assert [run.agent for run in online_learner.tick()] == [router]
    assert online_learner.tick() == []


def test_imported_corrections_start_no_early_run_before_somebody_has_seen_the_plan(router):
    correct(router, 20)
    Feedback.objects.update(source="openai_chat")
    assert online_learner.tick() == []
    router.note_plan_seen()
    assert len(online_learner.tick()) == 1
