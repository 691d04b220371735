import threading
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone
from django_q.models import OrmQ

from rl import auto_labels, tasks
from rl.base.errors import Interrupted, UsageError
from rl.base.locks import device_lock
from rl.collect.feedback import write
from rl.models import Agent, Trace
from rl.rewards import BaseReward, RewardResult
from rl.rewards.summary import EXAMPLES
from rl.scoring import stored as rewarding
from rl.scoring.stored import calculate, engine_for
from tests.auto_labels.labelled import BAD, GOOD, make_labelled
from tests.conftest import make_trace

pytestmark = [pytest.mark.database, pytest.mark.django_db]
HERE = "tests.scoring.test_stored"
DONE, FAILED = {"tool_name": "search", "success": True}, {"tool_name": "search", "success": False}


def rate(trace: Trace, value: float, rater: str = "anna") -> None:
    write.rate(trace, rater=rater, scale="score", value=value, source="test")


def stored(trace: Trace) -> Trace:
    trace.refresh_from_db()
    return trace


class Meddles(BaseReward):
    """While it computes, somebody says something about the answer."""

    done = False

    def compute(self, trace) -> RewardResult:
        if not Meddles.done:
            Meddles.done = True
            rate(Trace.objects.get(pk=trace.id), 0.0, "ben")
        return self.abstains("it only meddles")


class BreaksOnBad(BaseReward):
    def compute(self, trace) -> RewardResult:
        if trace.response == "bad":
            raise ValueError("I break on \x00 \ud800 this")
        return self.abstains("fine")


class Unstorable(BaseReward):
    def compute(self, trace) -> RewardResult:
        return self.gives(1.0, "x", what={1, 2})


@pytest.fixture
def _meddler(settings):
    Meddles.done = False
    settings.CUSTOM_REWARDS = {"meddles": f"{HERE}.Meddles"}


# --- what is written --------------------------------------------------------------------------------------------------


def test_every_component_is_stored_and_the_trace_does_not_wait_any_more(agent: Agent):
    trace = make_trace(agent, tool_calls=[DONE, FAILED])
    rate(trace, 1.0)
    found = calculate()
    trace = stored(trace)
    assert trace.reward == pytest.approx((2 * 0.5 + 3 * 1.0 + 0.5 * 2 ** (-2 / 8)) / 5.5)
    assert trace.rewards["tool_success"] == {
        "value": 0.5,
        "weight": 2.0,
        "reason": "1 of 2 tool calls succeeded",
        "details": {"calls": 2, "failed": ["search"]},
    }
    assert trace.rewards["code_execution"]["value"] is None
    assert trace.reward_pending is False
    assert trace.rewarded_at is not None
    assert (found.read, found.rewarded, found.summary.good) == (1, 1, 1)


def test_where_nothing_applies_there_is_no_reward_until_somebody_says_something(agent: Agent):
    trace = make_trace(agent, duration_ms=5)
    assert calculate().nothing_applies == 1
    assert (stored(trace).reward, trace.reward_pending) == (None, False)
    assert calculate().read == 0
    rate(trace, 0.25)
    assert calculate().rewarded == 1
    assert stored(trace).reward is not None


def test_a_second_calculation_finds_nothing_to_do_and_all_does_everything_again(agent: Agent):
    for _ in range(3):
        make_trace(agent)
    assert [calculate().read, calculate().read, calculate(pending=False).read] == [3, 0, 3]


def test_a_dry_run_writes_nothing(agent: Agent):
    trace = make_trace(agent, tool_calls=[DONE])
    assert calculate(dry_run=True).rewarded == 1
    assert (stored(trace).reward, trace.rewards, trace.reward_pending) == (None, {}, True)


def test_only_the_agent_that_was_asked_for_and_the_oldest_first(agent: Agent):
    traces = [make_trace(agent) for _ in range(5)]
    other = make_trace(Agent.objects.create(name="other"))
    assert calculate(agent, limit=2).read == 2
    assert [stored(trace).reward_pending for trace in [*traces, other]] == [False, False, True, True, True, True]


def test_more_than_a_chunk_is_done_in_order_even_of_one_moment(
    agent: Agent, monkeypatch, django_assert_max_num_queries
):
    monkeypatch.setattr(rewarding, "CHUNK", 4)
    for _ in range(11):
        make_trace(agent)
    Trace.objects.update(created_at=timezone.now() - timedelta(hours=1))
    steps = []
    found = calculate(report=lambda event, values: steps.append((event, values.get("step"), values.get("total_steps"))))
    assert found.read == 11
    assert steps == [("stage", None, None), ("step", 4, 11), ("step", 8, 11), ("step", 11, 11)]


# --- the agent's settings ---------------------------------------------------------------------------------------------


def test_the_weights_of_the_agent_count(agent: Agent):
    agent.reward_weights, agent.label_threshold = {"efficiency": 0, "tool_success": 1, "feedback": 4}, 0.9
    agent.decision_weights = {"immediate": {"userFeedback": 2.0}}
    agent.answer_format = "json"
    agent.full_clean()
    trace = make_trace(agent, tool_calls=[FAILED], response="{}")
    rate(trace, 1.0)
    agent.save()
    calculate()
    assert stored(trace).reward == pytest.approx((4 + 1) / 6)
    assert "efficiency" not in trace.rewards
    assert engine_for(agent).rewards["decision"].own_weights == agent.decision_weights
    assert engine_for(agent).label_of(0.8) is False


def test_wrong_settings_of_one_agent_do_not_stop_the_others(agent: Agent):
    trace = make_trace(agent)
    Agent.objects.create(name="wrong", reward_weights={"luck": 1})
    make_trace(Agent.objects.get(name="wrong"))
    found = calculate()
    assert stored(trace).reward_pending is False
    assert list(found.unusable) == ["wrong"]
    assert "unknown reward 'luck'" in found.unusable["wrong"]
    with pytest.raises(UsageError, match="luck"):
        calculate(Agent.objects.get(name="wrong"))


def test_custom_rewards_are_computed(agent: Agent, settings):
    settings.CUSTOM_REWARDS = {"brief": "tests.rewards.records.Length"}
    trace = make_trace(agent, response="abc")
    calculate()
    assert stored(trace).rewards["brief"]["value"] == 0.25
    settings.CUSTOM_REWARDS = {"brief": "no.such.Reward"}
    with pytest.raises(UsageError, match="brief=no.such.Reward cannot be loaded"):
        calculate()


# --- what breaks ------------------------------------------------------------------------------------------------------


def test_a_trace_whose_reward_breaks_is_reported_and_neither_stops_nor_blocks_the_others(agent: Agent, settings):
    settings.CUSTOM_REWARDS = {"brittle": f"{HERE}.BreaksOnBad"}
    bad, good = make_trace(agent, response="bad", tool_calls=[DONE]), make_trace(agent, tool_calls=[DONE])
    found = calculate()
    assert (found.read, found.rewarded, found.broken) == (2, 1, 1)
    assert found.failures["brittle"].count == 1
    assert found.failures["brittle"].examples[0]["trace"] == str(bad.pk)
    assert (stored(bad).reward, bad.reward_pending) == (None, False)
    assert bad.rewards["brittle"]["reason"].startswith("broke: reward brittle: ValueError: I break on")
    assert bad.rewards["tool_success"]["value"] == 1.0
    assert stored(good).reward is not None


def test_a_reward_that_tells_what_cannot_be_stored_has_broken(agent: Agent, settings):
    settings.CUSTOM_REWARDS = {"odd": f"{HERE}.Unstorable"}
    trace = make_trace(agent)
    assert calculate().broken == 1
    assert "cannot be stored" in stored(trace).rewards["odd"]["reason"]


def test_a_trace_that_cannot_be_read_is_reported_and_neither_stops_nor_blocks_the_others(agent: Agent):
    bad, good = make_trace(agent), make_trace(agent, tool_calls=[DONE])
    Trace.objects.filter(pk=bad.pk).update(prompt=7)
    dry = calculate(dry_run=True)
    found = calculate()
    assert (dry.broken, found.read, found.broken, found.rewarded) == (1, 2, 1, 1)
    (example,) = found.failures["(stored trace)"].examples
    assert example["trace"] == str(bad.pk)
    assert "cannot be read" in example["reason"]
    assert (stored(bad).reward_pending, stored(good).reward) == (False, pytest.approx(1.0, abs=0.1))
    assert calculate().read == 0


def test_the_report_stays_small_whatever_breaks(agent: Agent, settings):
    settings.CUSTOM_REWARDS = {"brittle": f"{HERE}.BreaksOnBad"}
    for _ in range(8):
        make_trace(agent, response="bad")
    failures = calculate().as_dict()["failures"]["brittle"]
    assert (failures["count"], len(failures["examples"])) == (8, EXAMPLES)


def test_an_interruption_keeps_what_was_written(agent: Agent, monkeypatch):
    monkeypatch.setattr(rewarding, "CHUNK", 2)
    for _ in range(6):
        make_trace(agent)

    def stop(event, values):
        if values.get("step") == 4:
            raise Interrupted("stop")

    with pytest.raises(Interrupted):
        calculate(report=stop)
    assert rewarding.waiting() == 2
    assert calculate().read == 2


# --- nothing that is said is lost -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_meddler")
def test_a_rating_that_comes_while_the_reward_is_computed_is_not_lost(agent: Agent):
    trace = make_trace(agent)
    rate(trace, 1.0)
    found = calculate()
    assert (found.read, found.changed) == (1, 1)
    assert (stored(trace).reward, trace.reward_pending) == (None, True)
    assert calculate().rewarded == 1
    assert (stored(trace).reward, trace.reward_pending) == (0.5, False)


class Deletes(BaseReward):
    def compute(self, trace) -> RewardResult:
        Trace.objects.filter(pk=trace.id).delete()
        return self.abstains("gone")


def test_a_trace_that_is_deleted_meanwhile_is_no_error(agent: Agent, settings):
    settings.CUSTOM_REWARDS = {"deletes": f"{HERE}.Deletes"}
    make_trace(agent)
    assert calculate().changed == 1


class SlowRater:
    """Has sent a rating that is not committed yet when the reward is computed and written."""

    said, done = threading.Event(), threading.Event()


class WaitsForRater(BaseReward):
    def compute(self, trace) -> RewardResult:
        SlowRater.said.wait(60)
        return self.abstains("no")


@pytest.mark.django_db(transaction=True)
def test_a_rating_that_is_not_committed_yet_is_not_lost(agent: Agent, settings):
    """The flag is still set when it comes, so setting it again changes nothing: only the lock makes the writer wait."""
    if connection.vendor == "sqlite":
        pytest.skip("SQLite lets one transaction write at a time")
    trace = make_trace(agent)
    settings.CUSTOM_REWARDS = {"waits": f"{HERE}.WaitsForRater"}
    SlowRater.said.clear()

    def rate_slowly() -> None:
        try:
            with transaction.atomic():
                rate(trace, 1.0)
                SlowRater.said.set()
                SlowRater.done.wait(1.5)
        finally:
            connection.close()

    rater = threading.Thread(target=rate_slowly)
    rater.start()
    found = calculate()
    rater.join(60)
    assert found.changed == 1
    assert stored(trace).reward_pending is True
    assert calculate().rewarded == 1
    assert stored(trace).reward == 1.0


# --- the queue --------------------------------------------------------------------------------------------------------


@pytest.fixture
def _queue(data_dir):
    OrmQ.objects.all().delete()


@pytest.mark.usefixtures("_queue")
@pytest.mark.django_db(transaction=True)
class TestTheQueue:
    def test_a_delivery_that_wrote_something_is_followed_by_another_one(self, agent: Agent):
        make_trace(agent, tool_calls=[DONE])
        assert tasks.calculate_rewards() == {"read": 1, "rewarded": 1, "broken": 0}
        (message,) = OrmQ.objects.all()
        assert (message.task["func"], message.task["args"]) == ("rl.tasks.calculate_rewards", ())
        OrmQ.objects.all().delete()
        assert tasks.calculate_rewards() == {"read": 0, "rewarded": 0, "broken": 0}
        assert not OrmQ.objects.exists()

    def test_a_delivery_stops_when_its_time_is_up(self, agent: Agent, monkeypatch):
        monkeypatch.setattr(rewarding, "DELIVERY_SECONDS", 0)
        monkeypatch.setattr(rewarding, "CHUNK", 2)
        for _ in range(5):
            make_trace(agent)
        found = rewarding.deliver()
        assert found is not None
        assert (found.read, found.finished, rewarding.waiting()) == (2, False, 3)

    def test_two_deliveries_do_not_work_side_by_side(self, agent: Agent):
        make_trace(agent)
        with device_lock(settings.DATA_DIR / "locks", "rewards", lambda: None):
            assert tasks.calculate_rewards() == {}
        assert rewarding.waiting() == 1


# --- a million traces -------------------------------------------------------------------------------------------------


def test_traces_are_found_by_an_index_and_never_sorted_whole(agent: Agent):
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL's plan depends on the number of rows")
    everything = Trace.objects.filter(agent=agent, created_at__gte=timezone.now()).order_by("created_at", "id")
    for traces, index in [
        (everything.filter(reward_pending=True), "trace_reward_pending"),
        (everything, "trace_agent"),
    ]:
        plan = traces.explain()
        assert f"SEARCH rl_trace USING INDEX {index}" in plan
        assert "FOR ORDER BY" not in plan  # only FOR RIGHT PART OF: among traces of one moment


@pytest.fixture
def learned(agent: Agent, data_dir, tiny_base):
    Agent.objects.update(base_model=str(tiny_base))
    agent.refresh_from_db()
    make_labelled(agent, 100)
    return auto_labels.learn(agent)


@pytest.mark.learn
def test_what_was_learned_from_labels_speaks_as_a_reward_where_it_was_proposed(agent: Agent, learned):
    calls = [{"tool_name": "track", "success": True}]
    good, bad, late = (make_trace(agent, f"Where is {n}?", GOOD.format(n), tool_calls=calls) for n in range(3))
    bad.response = BAD.format(1)
    bad.save()
    calculate()
    auto_labels.propose(learned, limit=3)
    late.label_proposal.delete()
    calculate()
    for trace in (good, bad, late):
        trace.refresh_from_db()
    values = [trace.rewards["learned_reward"]["value"] for trace in (good, bad, late)]
    assert values[0] > 0.7 > 0.3 > values[1]
    assert values[2] is None
    assert late.reward > good.reward > bad.reward


@pytest.mark.learn
def test_damaged_weights_stop_the_agent_and_not_the_others(learned):
    learned.model.path.write_bytes(b"damaged")
    other = make_trace(Agent.objects.create(name="other"), tool_calls=[{"tool_name": "track", "success": True}])
    report = calculate()
    assert list(report.unusable) == ["support-chat"]
    other.refresh_from_db()
    assert other.reward is not None
    assert other.reward > 0.9
