from datetime import timedelta

import pytest
from django.utils import timezone

from rl.collect.feedback import write
from rl.models import Agent, Arm, Experiment, Trace
from rl.serving.experiments import metrics
from rl.serving.experiments.looks import look
from rl.serving.experiments.report import document
from tests.serving.experiments.experimenting import answers, arms_of, make_experiment, rate, use


@pytest.fixture
def experiment(agent: Agent) -> Experiment:
    return make_experiment(agent)


def means(experiment: Experiment, metric: str) -> dict[str, tuple[int, float]]:
    """By version: how many units, and their mean."""
    tally = metrics.new_tally(metric, 0.1)
    for seen in metrics.observations(experiment, metric):
        tally.add(seen.arm, seen.unit, seen.value, seen.step)
    found = {arm.name: (arm.pk, tally.mean(arm.pk)) for arm in experiment.arms.all()}
    return {name: (tally.n(arm), round(mean.value, 6)) for name, (arm, mean) in found.items() if mean}


def say(trace: Trace, value: float, rater: str = "device:1", scale: str = "score") -> None:
    write.rate(trace, rater=rater, scale=scale, value=value, source="test")


def test_each_user_counts_once_with_the_mean_of_the_ratings(experiment: Experiment):
    control, challenger = arms_of(experiment)
    first, second, other = answers(control, ["anna", "anna", "ben"])
    for trace, value in ((first, 1.0), (second, 0.0), (other, 1.0)):
        say(trace, value)
    say(answers(challenger, ["carl"])[0], 0.25)
    assert means(experiment, "rating") == {"base": (2, 0.75), "v286": (1, 0.25)}


def test_a_rating_in_the_middle_is_no_thumb(experiment: Experiment):
    control, _ = arms_of(experiment)
    for trace, stars in zip(answers(control, ["anna", "ben", "carl", "dora"]), (5, 4, 3, 1), strict=True):
        say(trace, stars, scale="stars")
    assert means(experiment, "thumbs_up") == {"base": (3, round(2 / 3, 6))}


def test_what_was_retracted_or_superseded_does_not_count(experiment: Experiment):
    control, _ = arms_of(experiment)
    kept, changed, gone = answers(control, ["anna", "ben", "carl"])
    say(kept, 1.0)
    say(changed, 1.0)
    say(changed, 0.0)
    say(gone, 1.0)
    write.retract(write.current_rating(gone, "device:1"), rater="device:1", source="test")
    assert means(experiment, "rating") == {"base": (2, 0.5)}


def test_answers_without_a_name_are_of_somebody_else_each_time(experiment: Experiment):
    control, _ = arms_of(experiment)
    for trace in answers(control, ["", ""]):
        say(trace, 1.0)
    assert means(experiment, "rating") == {"base": (2, 1.0)}


@pytest.mark.database
def test_outcomes_are_those_of_the_name(experiment: Experiment):
    control, challenger = arms_of(experiment)
    (one,), (other,) = answers(control, ["anna"]), answers(challenger, ["ben"])
    write.outcome(one, metric="solved", value=3.0, rater="app", source="test")
    write.outcome(other, metric="solved", value=5.0, rater="app", source="test")
    write.outcome(other, metric="clicks", value=70.0, rater="app", source="test")
    assert means(experiment, "outcome:solved") == {"base": (1, 3.0), "v286": (1, 5.0)}


@pytest.mark.parametrize(("choice", "value"), [("left", 0.0), ("right", 1.0), ("tie", 0.5), ("both_bad", 0.5)])
@pytest.mark.parametrize("control_is_left", [True, False])
def test_a_comparison_is_won_by_the_challenger_lost_or_drawn(experiment, choice, value, control_is_left):
    control, challenger = arms_of(experiment)
    (one,), (other,) = answers(control, ["anna"]), answers(challenger, ["anna"])
    left, right = (one, other) if control_is_left else (other, one)
    write.compare(left, right, choice=choice, rater="device:1", source="test")
    assert means(experiment, "win_rate") == {"v286": (1, value if control_is_left else 1 - value)}


def test_a_rater_counts_once_for_a_pair_and_pairs_of_one_arm_not_at_all(experiment: Experiment):
    control, challenger = arms_of(experiment)
    (one,), (other, third) = answers(control, ["anna"]), answers(challenger, ["anna", "anna"])
    for left, right, choice, rater in (
        (one, other, "right", "device:1"),
        (other, one, "right", "device:1"),
        (one, other, "right", "device:2"),
        (other, third, "right", "device:1"),
    ):
        write.compare(left, right, choice=choice, rater=rater, source="test")
    assert means(experiment, "win_rate") == {"v286": (2, 0.75)}


@pytest.mark.database
def test_a_duel_counts_for_the_versions_whoever_asked(experiment: Experiment):
    """Answers that the experiment did not give: on the page under /try/ a version is asked for by name."""
    control, challenger = arms_of(experiment)
    (one,), (other,) = answers(control, ["anna"]), answers(challenger, ["anna"])
    for trace, arm in ((one, control), (other, challenger)):
        Trace.objects.filter(pk=trace.pk).update(
            arm=None, source="gateway", model_version=arm.version, occurred_at=timezone.now()
        )
    for left, right, choice, rater, tags in (
        (one, other, "right", "user:alice", []),
        (other, one, "tie", "user:bob", []),
        (one, other, "left", "user:charlie", ["not blind"]),
    ):
        write.compare(left, right, choice=choice, rater=rater, tags=tags, source="test")
    assert means(experiment, "duel") == {"v286": (2, 0.75)}
    assert means(experiment, "win_rate") == {}
    Trace.objects.update(occurred_at=experiment.started_at - timedelta(days=1))
    assert means(experiment, "duel") == {}


def test_failed_requests_are_the_error_rate(experiment: Experiment):
    control, challenger = arms_of(experiment)
    Arm.objects.filter(pk=control.pk).update(requests=200, failures=10)
    tally = metrics.new_tally("error_rate", 0.1)
    metrics.count_errors(tally, list(experiment.arms.all()))
    assert (tally.n(control.pk), tally.mean(control.pk).value) == (200, 0.05)
    assert tally.mean(challenger.pk) is None
    assert list(metrics.observations(experiment, "error_rate")) == []


@pytest.mark.database
def test_other_experiments_and_other_answers_do_not_count(experiment: Experiment, trace: Trace):
    control, _ = arms_of(experiment)
    say(answers(control, ["anna"])[0], 1.0)
    say(trace, 0.0)
    Experiment.objects.filter(pk=experiment.pk).update(state="stopped", stopped_at=timezone.now())
    other = make_experiment(experiment.agent, name="second")
    say(answers(arms_of(other)[0], ["anna"])[0], 0.0)
    assert means(experiment, "rating") == {"base": (1, 1.0)}


def test_what_comes_after_the_end_does_not_count(experiment: Experiment):
    control, _ = arms_of(experiment)
    one, late = answers(control, ["anna", "ben"])
    say(one, 1.0)
    experiment.stopped_at = timezone.now()
    say(late, 0.0)
    assert means(experiment, "rating") == {"base": (1, 1.0)}


def test_a_draft_has_observed_nothing(agent: Agent):
    assert means(make_experiment(agent, running=False), "rating") == {}


@pytest.mark.database
def test_answers_know_the_step_of_the_ramp_that_they_were_given_in(agent: Agent):
    ramp = [{"hours": 0, "share": 0.1}, {"hours": 24, "share": 0.5}, {"hours": 1000, "share": 1}]
    experiment = make_experiment(agent, ramp=ramp)  # two days ago
    control, _ = arms_of(experiment)
    early = answers(control, ["anna"], occurred_at=experiment.started_at + timedelta(hours=23))
    late = answers(control, ["ben"], occurred_at=experiment.started_at + timedelta(hours=25))
    rate([*late, *early], up=1)
    assert [(seen.unit, seen.step) for seen in metrics.observations(experiment, "rating")] == [("ben", 1), ("anna", 0)]


def test_it_is_one_query_however_many_ratings(experiment: Experiment, django_assert_num_queries):
    for arm in arms_of(experiment):
        use(arm, 30, 10)
    with django_assert_num_queries(1):
        assert len(list(metrics.observations(experiment, "rating"))) == 60
    control, challenger = arms_of(experiment)
    assert metrics.users(experiment) == {control.pk: 30, challenger.pk: 30}


def test_what_an_answer_takes_is_the_middle_of_the_newest_of_each_arm(experiment: Experiment, monkeypatch):
    control, challenger = arms_of(experiment)
    for seconds, tokens in ((9, 900), (1, 10), (2, 20), (3, 30)):
        answers(control, ["anna"], duration_ms=1000 * seconds, tokens_in=tokens, tokens_out=5)
    answers(challenger, ["ben"], duration_ms=250)
    assert metrics.efforts(experiment) == {control.pk: (2.5, 25, 5), challenger.pk: (0.25, None, None)}
    shown = {arm["version"]: arm["texts"]["effort"] for arm in document(look(experiment))["arms"]}
    assert shown == {"base": "2.5 s\n(25 + 5 tokens)", "v286": "0.25 s"}
    monkeypatch.setattr(metrics, "NEWEST", 4)
    assert metrics.efforts(experiment)[control.pk] == (2, 20, 5)


def test_where_nobody_was_answered_it_is_not_said_what_an_answer_takes(experiment: Experiment):
    assert {arm["texts"]["effort"] for arm in document(look(experiment))["arms"]} == {"–"}
