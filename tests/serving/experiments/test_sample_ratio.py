import random
from datetime import timedelta

import pytest
from django.utils import timezone

from rl.models import Agent, Arm, Assignment, Deployment, Experiment, Trace
from rl.serving.experiments import lifecycle
from rl.serving.experiments.looks import look
from rl.serving.experiments.report import document
from rl.serving.experiments.sample_ratio import ALPHA, log_bayes_factor, pick
from tests.admin.records import make_version
from tests.serving.experiments.experimenting import answers, arms_of, create, make_experiment, rate, use, version_of

RAMP = [{"hours": 0, "share": 0.1}, {"hours": 24, "share": 0.5}]


pytestmark = pytest.mark.usefixtures("data_dir")  # a promotion takes a lock


def come(experiment: Experiment, units: list[str], shares: dict[int, float], hours: float = 0.0) -> None:
    """The users are divided as the gateway does it, so many hours after the start; whatever the rows' numbers are."""
    arms = {arm.pk: arm for arm in experiment.arms.all()}
    by_position = {position: shares.get(pk, 0.0) for position, pk in enumerate(sorted(arms))}
    given = {unit: sorted(arms)[pick(0, unit, by_position)] for unit in units}
    moment = experiment.started_at + timedelta(hours=hours)
    for pk, arm in arms.items():
        answers(arm, [unit for unit in units if given[unit] == pk], occurred_at=moment)
    rows = [Assignment(experiment=experiment, arm=arms[arm], unit=unit) for unit, arm in given.items()]
    Assignment.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["experiment", "unit"], update_fields=["arm"]
    )
    Assignment.objects.filter(unit__in=units, created_at__gt=moment).update(created_at=moment)


def names(count: int, start: int = 0) -> list[str]:
    return [f"user {number}" for number in range(start, start + count)]


@pytest.mark.parametrize("expected", [[0.5, 0.5], [0.9, 0.1], [0.4, 0.3, 0.3]])
def test_a_healthy_split_that_is_looked_at_after_every_user_is_seldom_called_mismatched(expected: list[float]):
    draw, flagged = random.Random(7), 0
    for _ in range(200):
        counts = [0] * len(expected)
        for _ in range(1000):
            counts[draw.choices(range(len(expected)), expected)[0]] += 1
            if log_bayes_factor(counts, expected) > 4.606:  # ln(1 / ALPHA)
                flagged += 1
                break
    assert flagged <= 200 * 2.5 * ALPHA


@pytest.mark.parametrize("share", [0.42, 0.58])
def test_a_split_that_is_off_by_eight_points_is_seen_within_a_thousand_users(share: float):
    draw, seen = random.Random(8), 0
    for _ in range(100):
        second = sum(draw.random() < share for _ in range(1000))
        seen += log_bayes_factor([1000 - second, second], [0.5, 0.5]) > 4.606
    assert seen >= 90


def test_users_as_the_gateway_divides_them_fit_at_every_look(agent: Agent):
    experiment = make_experiment(agent)
    control, challenger = arms_of(experiment)
    for start in range(0, 1000, 100):
        come(experiment, names(100, start), {control.pk: 0.5, challenger.pk: 0.5})
        ratio = look(experiment).sample_ratio
        assert (ratio.is_mismatched, ratio.text) == (False, "")
        assert ALPHA <= ratio.p_value <= 1


@pytest.fixture
def broken(agent: Agent) -> Experiment:
    """The challenger is much better; but most of its users are missing."""
    experiment = make_experiment(agent)
    control, challenger = arms_of(experiment)
    use(control, 200, 60)
    use(challenger, 100, 90)
    return experiment


def test_where_users_of_an_arm_are_missing_nothing_is_decided(agent: Agent, broken: Experiment):
    assert lifecycle.tick() == []
    broken.refresh_from_db()
    assert (broken.state, broken.verdict, Deployment.champion(agent)) == ("running", "", None)
    assert broken.reason.startswith(
        "The users do not fit the split that was asked for: v286 100 of 300 where about 150 fit, "
        "base 200 of 300 where about 150 fit (p below 0.001). The figures cannot be trusted until the cause is known."
    )
    assert "Without that: v286 is better than base" in broken.reason
    report = document(look(broken))
    assert (report["answer"], report["verdict"]) == ("The users do not fit the split", "")
    assert report["sample_ratio"]["is_mismatched"]
    assert report["sample_ratio"]["p_value"] < 1e-4


def test_once_the_missing_users_are_there_the_answer_follows(agent: Agent, broken: Experiment):
    _, challenger = arms_of(broken)
    rows = [Assignment(experiment=broken, arm=challenger, unit=f"late {number}") for number in range(90)]
    Assignment.objects.bulk_create(rows)
    assert lifecycle.tick() == [broken]
    assert Deployment.champion(agent) == version_of(agent)


def test_a_person_may_decide_in_spite_of_it_and_the_reason_keeps_it(agent: Agent, broken: Experiment):
    lifecycle.conclude(broken, arms_of(broken)[1], "bob")
    assert broken.verdict == "stopped"
    assert broken.reason.startswith("bob chose v286. The users do not fit the split")
    assert document(look(broken))["reason"] == broken.reason


@pytest.mark.database
def test_an_experiment_that_ended_before_anybody_knew_says_so_too(broken: Experiment):
    Experiment.objects.update(state="stopped", verdict="promote", reason="v286 is better.", stopped_at=timezone.now())
    broken.refresh_from_db()
    report = document(look(broken))
    assert (report["answer"], report["verdict"]) == ("The users do not fit the split", "promote")
    assert report["reason"].startswith("The users do not fit the split that was asked for: v286 100 of 300")
    assert report["reason"].endswith("v286 is better.")


@pytest.mark.database
def test_a_guard_still_stops_an_arm_whose_users_are_missing(agent: Agent):
    experiment = make_experiment(agent, guard_metric="error_rate", guard_margin=0.05)
    control, challenger = arms_of(experiment)
    use(control, 200, 60)
    use(challenger, 100, 90, failures=100)
    assert lifecycle.tick() == []
    challenger.refresh_from_db()
    assert challenger.is_stopped


@pytest.mark.database
def test_a_beaten_arm_is_not_stopped_by_figures_that_cannot_be_trusted(agent: Agent):
    arms = [(make_version(agent, "v1"), 1.0), (make_version(agent, "v2"), 1.0), (None, 1.0)]
    experiment = create(agent, "three", arms, None, metric="thumbs_up")
    lifecycle.start(experiment)
    first, second, control = experiment.arms.all()
    for arm, users, up in ((first, 150, 20), (second, 60, 42), (control, 150, 100)):
        use(arm, users, up)
    assert lifecycle.tick() == []
    assert not experiment.arms.filter(is_stopped=True).exists()


def test_after_an_arm_was_stopped_the_others_are_compared_with_one_another(agent: Agent):
    arms = [(make_version(agent, "v1"), 1.0), (make_version(agent, "v2"), 1.0), (None, 2.0)]
    experiment = create(agent, "three", arms, None)
    lifecycle.start(experiment)
    first, second, control = experiment.arms.all()
    come(experiment, names(300), {first.pk: 0.25, second.pk: 0.25, control.pk: 0.5})
    Arm.objects.filter(pk=first.pk).update(is_stopped=True)
    come(experiment, names(500, 150), {second.pk: 1 / 3, control.pk: 2 / 3})  # half of those before come again
    ratio = look(experiment).sample_ratio
    assert not ratio.is_mismatched
    Assignment.objects.filter(arm=second).delete()
    assert "v2 0 of" in look(experiment).sample_ratio.text


def test_with_one_arm_left_there_is_nothing_to_compare(agent: Agent):
    experiment = make_experiment(agent)
    control, challenger = arms_of(experiment)
    use(control, 100, 10)
    Arm.objects.filter(pk=challenger.pk).update(is_stopped=True)
    assert look(experiment).sample_ratio is None
    assert document(look(experiment))["sample_ratio"] is None


# --- ramps --------------------------------------------------------------------------------------------------------------


def step_shares(experiment: Experiment, challengers: float) -> dict[int, float]:
    control, challenger = arms_of(experiment)
    return {control.pk: 1 - challengers, challenger.pk: challengers}


def test_users_who_move_with_a_ramp_count_where_they_came_first(agent: Agent):
    experiment = make_experiment(agent, ramp=RAMP)
    come(experiment, names(600), step_shares(experiment, 0.1), hours=1)
    come(experiment, names(900), step_shares(experiment, 0.5), hours=30)
    assert Assignment.objects.count() == 900
    assert not look(experiment).sample_ratio.is_mismatched


def test_a_step_whose_users_do_not_fit_is_named_and_not_forgotten(agent: Agent):
    experiment = make_experiment(agent, ramp=RAMP)
    control, challenger = arms_of(experiment)
    come(experiment, names(300), {control.pk: 0.7, challenger.pk: 0.3}, hours=1)
    come(experiment, names(600, 300), step_shares(experiment, 0.5), hours=30)
    ratio = look(experiment).sample_ratio
    assert ratio.is_mismatched
    assert "of those who came first in the step from hour 0 on v286" in ratio.text
    assert "of 300 where about 30 fit" in ratio.text


@pytest.mark.database
def test_users_who_were_never_answered_count_too(agent: Agent):
    experiment = make_experiment(agent, ramp=RAMP)
    _, challenger = arms_of(experiment)
    come(experiment, names(300), step_shares(experiment, 0.5), hours=30)
    Trace.objects.filter(arm=challenger).delete()
    assert not look(experiment).sample_ratio.is_mismatched
    Assignment.objects.filter(arm=challenger).delete()
    assert look(experiment).sample_ratio.is_mismatched


@pytest.mark.database
def test_after_a_challenger_was_stopped_on_a_ramp_the_challengers_count_together(agent: Agent):
    arms = [(make_version(agent, "v1"), 1.0), (make_version(agent, "v2"), 1.0), (None, 2.0)]
    experiment = create(agent, "three", arms, None, ramp=[{"hours": 0, "share": 0.4}])
    lifecycle.start(experiment)
    first, second, control = experiment.arms.all()
    come(experiment, names(300), {first.pk: 0.2, second.pk: 0.2, control.pk: 0.6})
    Arm.objects.filter(pk=first.pk).update(is_stopped=True)
    come(experiment, names(400, 150), {second.pk: 0.4, control.pk: 0.6})
    assert not look(experiment).sample_ratio.is_mismatched
    rate(answers(control, names(300, 1000)), 0)
    Assignment.objects.bulk_create(
        Assignment(experiment=experiment, arm=control, unit=unit) for unit in names(300, 1000)
    )
    assert "the challengers" in look(experiment).sample_ratio.text


@pytest.mark.database
def test_a_ramp_that_has_ended_is_not_compared(agent: Agent):
    experiment = make_experiment(agent, ramp=RAMP)
    lifecycle.stop(experiment, "bob")
    assert look(experiment).sample_ratio is None
