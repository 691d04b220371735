import math

import pytest
from django.core.exceptions import ValidationError

from rl.base.errors import ExportFailed, RunConflict, UsageError
from rl.models import Agent, Arm, Deployment, Experiment, ModelVersion
from rl.serving.experiments import lifecycle
from tests.admin.records import make_run, make_version
from tests.serving.experiments.experimenting import arms_of, create, make_experiment, use, version_of

pytestmark = pytest.mark.usefixtures("data_dir")  # a promotion takes a lock


def draft(agent: Agent, **changes) -> Experiment:
    values = {"control": None, **changes}
    arms = values.pop("arms", None) or [(make_version(agent, "v286"), 1.0), (None, 1.0)]
    return create(agent, values.pop("name", "first"), arms, values.pop("control"), **values)


# --- making and starting ------------------------------------------------------------------------------------------------


def test_a_draft_keeps_its_arms_and_settings(agent: Agent):
    version = make_version(agent, "v286")
    experiment = draft(agent, arms=[(version, 30.0), (None, 70.0)], metric="outcome:solved", min_samples=80)
    control, challenger = arms_of(experiment)
    assert (control.version, control.weight, challenger.version, challenger.weight) == (None, 70.0, version, 30.0)
    assert (experiment.state, experiment.metric, experiment.min_samples) == ("draft", "outcome:solved", 80)
    assert experiment.started_at is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda agent: {"arms": [(None, 1.0)]}, "at least two arms"),
        (lambda agent: {"arms": [(None, 1.0), (None, 1.0)]}, "each version once"),
        (lambda agent: {"control": make_version(agent, "v1")}, "must be the control"),
        (
            lambda agent: {"arms": [(make_version(agent, "v1"), 0.0), (None, 1.0)]},
            "weight of v1 must be above 0, not 0",
        ),
        (lambda agent: {"arms": [(make_version(agent, "v1"), math.nan), (None, 1.0)]}, "above 0, not nan"),
        (lambda agent: {"minimum_effect": math.nan}, "minimum_effect must be a finite number"),
        (
            lambda agent: {"arms": [(make_version(Agent.objects.create(name="x"), "v1"), 1.0), (None, 1.0)]},
            "not a version of",
        ),
    ],
)
def test_arms_that_make_no_experiment_are_refused(agent: Agent, change, problem: str):
    with pytest.raises(UsageError, match=problem):
        draft(agent, **change(agent))
    assert not Experiment.objects.exists()


@pytest.mark.database
def test_a_reward_model_gives_no_answers(agent: Agent):
    version = make_version(agent, "v1")
    run = make_run(agent, version=version)
    run.method = "reward_model"
    run.save()
    with pytest.raises(UsageError, match="reward model"):
        draft(agent, arms=[(version, 1.0), (None, 1.0)])


@pytest.mark.parametrize(
    "given",
    [
        {"metric": "speed"},
        {"metric": "outcome:"},
        {"minimum_effect": 0.0},
        {"confidence": 1.0},
        {"min_samples": 1},
        {"guard_metric": "speed"},
        {"guard_margin": -0.1},
        {"ramp": [{"hours": 5, "share": 0.1}]},
    ],
)
def test_settings_out_of_their_range_are_refused(agent: Agent, given: dict):
    with pytest.raises(ValidationError) as caught:
        draft(agent, **given)
    assert list(caught.value.message_dict) == list(given)
    assert not Experiment.objects.exists()


def test_a_name_is_used_once(agent: Agent):
    draft(agent)
    with pytest.raises(ValidationError, match="already exists"):
        draft(agent, arms=[(version_of(agent), 1.0), (None, 1.0)])


def test_one_experiment_of_an_agent_runs_at_a_time(agent: Agent):
    make_experiment(agent)
    second = make_experiment(agent, name="second", running=False)
    with pytest.raises(RunConflict, match="first of support-chat is running; stop it first"):
        lifecycle.start(second)
    second.refresh_from_db()
    assert second.state == "draft"


def test_an_experiment_starts_once(agent: Agent):
    experiment = make_experiment(agent)
    assert lifecycle.find_running(agent) == experiment
    with pytest.raises(RunConflict, match="was started before: it is running"):
        lifecycle.start(experiment)


def test_what_nothing_serves_is_named(agent: Agent):
    experiment = make_experiment(agent)
    assert lifecycle.find_unserved(experiment) == ["v286", "base"]
    Deployment.objects.create(agent=agent, version=None, target="openai", url="http://127.0.0.1:1", model_name="base")
    Deployment.objects.create(agent=agent, version=version_of(agent), target="none")
    assert lifecycle.find_unserved(experiment) == ["v286"]


# --- ending by itself ---------------------------------------------------------------------------------------------------


@pytest.fixture
def better(agent: Agent) -> Experiment:
    experiment = make_experiment(agent)
    control, challenger = arms_of(experiment)
    use(control, 150, 50)
    use(challenger, 150, 120)
    return experiment


def champion(agent: Agent) -> ModelVersion | None:
    return Deployment.champion(agent)


def test_a_better_challenger_is_promoted_and_the_experiment_ends(agent: Agent, better: Experiment):
    assert lifecycle.tick() == [better]
    better.refresh_from_db()
    assert (better.state, better.verdict) == ("stopped", "promote")
    assert better.reason.startswith("v286 is better than base: +46.7 points")
    assert better.stopped_at is not None
    assert champion(agent) == version_of(agent)
    assert lifecycle.tick() == []


def test_a_worse_challenger_leaves_the_control_in_use(agent: Agent):
    experiment = make_experiment(agent)
    Deployment.promote(version_of(agent))
    control, challenger = arms_of(experiment)
    use(control, 150, 120)
    use(challenger, 150, 50)
    assert lifecycle.tick() == [experiment]
    experiment.refresh_from_db()
    assert experiment.verdict == "roll_back"
    assert champion(agent) is None  # the control is the base model


def test_two_processes_with_one_answer_act_once(agent: Agent, better: Experiment, monkeypatch):
    promoted = []
    monkeypatch.setattr("rl.serving.experiments.lifecycle.promote", lambda *args, **kwargs: promoted.append(args))
    twin = Experiment.objects.get(pk=better.pk)
    assert lifecycle.follow(better)
    assert not lifecycle.follow(twin)
    assert promoted == [(agent, version_of(agent))]


@pytest.mark.database
def test_without_automatic_it_says_what_it_would_do_and_waits(agent: Agent, better: Experiment, monkeypatch):
    told = []
    monkeypatch.setattr(lifecycle, "experiment_waits", lambda experiment, *answer: told.append((experiment, *answer)))
    Experiment.objects.update(automatic=False)
    assert lifecycle.tick() == lifecycle.tick() == []
    better.refresh_from_db()
    assert told == [(better, "promote", better.reason.removeprefix("Waits for a person. "))]
    assert (better.state, better.verdict) == ("running", "")
    assert better.reason.startswith("Waits for a person. v286 is better than base")
    assert champion(agent) is None


def test_an_open_experiment_tells_how_much_is_missing(agent: Agent):
    experiment = make_experiment(agent)
    for arm in arms_of(experiment):
        use(arm, 60, 30)
    assert lifecycle.tick() == []
    experiment.refresh_from_db()
    assert experiment.reason.startswith("No answer yet about v286")
    assert experiment.reason.endswith("more rated users are needed.")


@pytest.mark.parametrize("automatic", [True, False])
def test_a_guard_stops_its_arm_in_any_case(agent: Agent, automatic: bool, caplog):
    experiment = make_experiment(agent, guard_metric="error_rate", guard_margin=0.05, automatic=automatic)
    control, challenger = arms_of(experiment)
    use(control, 60, 30)
    use(challenger, 30, 15, failures=30)
    assert lifecycle.tick() == ([experiment] if automatic else [])
    challenger.refresh_from_db()
    experiment.refresh_from_db()
    assert challenger.is_stopped
    assert "v286 was stopped by its guard" in experiment.reason
    assert experiment.verdict == ("roll_back" if automatic else "")
    assert "arm v286 of experiment first is stopped" in caplog.text


@pytest.mark.database
def test_a_beaten_arm_loses_its_users_while_the_other_goes_on(agent: Agent):
    arms = [(make_version(agent, "v1"), 1.0), (make_version(agent, "v2"), 1.0), (None, 1.0)]
    experiment = create(agent, "three", arms, None, metric="thumbs_up")
    lifecycle.start(experiment)
    first, second, control = experiment.arms.all()
    for arm, up in ((first, 20), (second, 105), (control, 100)):
        use(arm, 150, up)
    assert lifecycle.tick() == []
    assert list(experiment.arms.values_list("is_stopped", flat=True)) == [True, False, False]
    experiment.refresh_from_db()
    assert experiment.state == "running"


@pytest.mark.database
def test_a_promotion_that_fails_is_told_and_others_go_on(agent: Agent, better: Experiment, monkeypatch):
    other = make_experiment(Agent.objects.create(name="other"))
    for arm in arms_of(other):
        use(arm, 150, 10 if arm.is_control else 140)

    def refuse(agent: Agent, version: ModelVersion, **options: object) -> None:
        if agent == better.agent:
            raise ExportFailed("Ollama is down")

    monkeypatch.setattr("rl.serving.experiments.lifecycle.promote", refuse)
    assert len(lifecycle.tick()) == 2
    better.refresh_from_db()
    assert (better.state, better.verdict) == ("stopped", "promote")
    assert better.reason.endswith("But v286 could not be put in use: Ollama is down")


# --- ending by a person -------------------------------------------------------------------------------------------------


@pytest.mark.database
def test_a_person_stops_it_without_an_answer(agent: Agent):
    experiment = make_experiment(agent)
    lifecycle.stop(experiment, "bob")
    assert (experiment.state, experiment.verdict) == ("stopped", "stopped")
    assert experiment.reason.startswith("bob stopped it. No answer yet")
    assert champion(agent) is None
    with pytest.raises(RunConflict, match="is not running: it is stopped"):
        lifecycle.stop(experiment, "bob")


@pytest.mark.database
def test_a_person_promotes_an_arm_before_there_is_an_answer(agent: Agent):
    experiment = make_experiment(agent)
    _, challenger = arms_of(experiment)
    lifecycle.conclude(experiment, challenger, "bob")
    assert (experiment.verdict, champion(agent)) == ("stopped", version_of(agent))
    assert experiment.reason.startswith("bob chose v286. No answer yet")


def test_a_person_follows_the_answer(agent: Agent, better: Experiment):
    _, challenger = arms_of(better)
    lifecycle.conclude(better, challenger, "bob")
    assert (better.verdict, champion(agent)) == ("promote", version_of(agent))


def test_an_arm_of_an_ended_experiment_can_still_be_promoted(agent: Agent):
    experiment = make_experiment(agent)
    lifecycle.stop(experiment, "bob")
    lifecycle.conclude(experiment, arms_of(experiment)[1], "bob")
    assert champion(agent) == version_of(agent)


def test_a_draft_and_another_experiments_arm_cannot_be_concluded(agent: Agent):
    experiment = make_experiment(agent, running=False)
    with pytest.raises(RunConflict, match="has not started"):
        lifecycle.conclude(experiment, arms_of(experiment)[1], "bob")
    other = make_experiment(Agent.objects.create(name="other"))
    with pytest.raises(UsageError, match="not an arm of first"):
        lifecycle.conclude(experiment, arms_of(other)[1], "bob")


@pytest.mark.database
def test_a_retired_version_is_no_reason_to_fail(agent: Agent, better: Experiment):
    version_of(agent).move(ModelVersion.Stage.RETIRED)
    ModelVersion.objects.update(stage="retired")
    assert lifecycle.tick() == [better]
    assert Arm.objects.filter(experiment=better).count() == 2
