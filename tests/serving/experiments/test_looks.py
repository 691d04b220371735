import pytest
from django.utils import timezone

from rl.models import Agent, Arm, Experiment
from rl.serving.experiments.looks import POINTS, look
from tests.serving.experiments.experimenting import arms_of, make_experiment, use


def test_a_look_shows_each_arm_beside_the_control(agent: Agent):
    experiment = make_experiment(agent)
    control, challenger = arms_of(experiment)
    use(control, 100, 50, failures=5)
    use(challenger, 100, 60)
    found = look(experiment)
    base, new = (next(one for one in found.arms if one.arm == arm) for arm in (control, challenger))
    assert (base.samples, base.reading, base.share) == (100, None, 0.5)
    assert base.mean.value == pytest.approx(0.5)
    assert (base.arm.requests, base.arm.failures) == (105, 5)
    assert new.mean.value == pytest.approx(0.6)
    assert new.reading.difference.value == pytest.approx(0.1)
    assert new.reading.difference.low < 0 < new.reading.difference.high
    assert 0.05 < new.reading.p_value <= 1
    assert new.predicted == pytest.approx(750, abs=30)
    assert found.progress == pytest.approx(100 / new.predicted, rel=0.02)
    assert found.decision.verdict == ""


def test_the_history_is_drawn_in_one_pass_and_ends_with_the_present(agent: Agent, django_assert_num_queries):
    experiment = make_experiment(agent)
    for arm in arms_of(experiment):
        use(arm, 500, 300)
    with django_assert_num_queries(3):
        found = look(experiment, with_history=True)
    (challenger,) = found.challengers
    counts = [point.observations for point in challenger.history]
    assert POINTS / 2 < len(counts) <= 2 * POINTS + 1
    assert counts == sorted(set(counts))
    assert counts[-1] == 1000
    assert challenger.history[-1].difference == challenger.reading.difference
    assert challenger.history[0].difference.high > challenger.history[-1].difference.high


@pytest.mark.database
def test_a_ramp_gives_the_shares_of_the_moment_and_a_stopped_arm_none(agent: Agent):
    experiment = make_experiment(agent, ramp=[{"hours": 0, "share": 0.1}, {"hours": 24, "share": 0.3}])
    control, challenger = arms_of(experiment)
    assert {one.arm: one.share for one in look(experiment).arms} == pytest.approx({control: 0.7, challenger: 0.3})
    Arm.objects.filter(pk=challenger.pk).update(is_stopped=True)
    assert {one.arm: one.share for one in look(experiment).arms} == {control: 1.0, challenger: 0.0}


def test_a_draft_shows_what_its_start_would_give(agent: Agent):
    found = look(make_experiment(agent, running=False, ramp=[{"hours": 0, "share": 0.1}]))
    assert sorted(one.share for one in found.arms) == pytest.approx([0.1, 0.9])
    assert found.decision.reason == "It has not started."
    assert found.challengers[0].predicted > 100


@pytest.mark.database
def test_an_ended_experiment_is_not_judged_again(agent: Agent):
    experiment = make_experiment(agent)
    for arm in arms_of(experiment):
        use(arm, 200, 20 if arm.is_control else 180)
    assert look(experiment).decision.verdict == "promote"
    fields = {"state": "stopped", "reason": "bob stopped it.", "stopped_at": timezone.now()}
    Experiment.objects.filter(pk=experiment.pk).update(**fields)
    experiment.refresh_from_db()
    found = look(experiment)
    assert (found.decision.verdict, found.decision.reason) == ("", "bob stopped it.")
    assert found.challengers[0].samples == 200


@pytest.mark.parametrize("metric", ["rating", "win_rate", "error_rate", "outcome:nobody-reports-it"])
def test_an_experiment_without_any_data_says_so(agent: Agent, metric: str):
    found = look(make_experiment(agent, metric=metric, guard_metric="error_rate"), with_history=True)
    (challenger,) = found.challengers
    assert (challenger.samples, challenger.mean, challenger.reading, challenger.guard) == (0, None, None, None)
    assert found.decision.reason.startswith("No answer yet about v286: there are no ")
    assert (challenger.predicted is None) == metric.startswith("outcome:")


def test_users_who_all_say_the_same_are_no_reason_to_fail(agent: Agent):
    experiment = make_experiment(agent)
    for arm in arms_of(experiment):
        use(arm, 40, 40)
    found = look(experiment).challengers[0].reading.difference
    assert found.value == 0
    assert found.low < 0 < found.high


def test_the_history_of_an_error_rate_is_its_present(agent: Agent):
    experiment = make_experiment(agent, metric="error_rate")
    for arm in arms_of(experiment):
        use(arm, 90, 0, failures=10)
    (point,) = look(experiment, with_history=True).challengers[0].history
    assert point.observations == 200
