import json
from functools import partial
from typing import Any

import pytest
from django.core.management import CommandError

from rl.models import Agent, Deployment, Experiment
from tests.admin.records import make_version
from tests.commands.printing import printed
from tests.serving.experiments.experimenting import arms_of, make_experiment, use, version_of

run = partial(printed, "experiment")

START = ("start", "--agent", "support-chat", "--name", "first", "--arms", "v286=50,base=50", "--control", "base")


@pytest.fixture(autouse=True)
def _site(agent: Agent, data_dir) -> None:
    make_version(agent, "v286")


def document(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json"))


def refused(*arguments: str) -> tuple[str, int]:
    with pytest.raises(CommandError) as caught:
        run(*arguments)
    return str(caught.value), caught.value.returncode


def test_it_starts_an_experiment_with_all_its_settings(agent: Agent) -> None:
    settings = "--metric thumbs_up --minimum-effect 0.05 --confidence 0.9 --min-samples 30 --max-samples 900"
    guards = "--guard-metric error_rate --guard-margin 0.02 --ramp 0:0.1,24:0.5 --no-automatic"
    found = document(*START, *settings.split(), *guards.split())
    assert [(arm["version"], arm["is_control"], round(arm["share"], 3)) for arm in found["arms"]] == [
        ("v286", False, 0.1),
        ("base", True, 0.9),
    ]
    assert found["warnings"] == [f"nothing serves {name}: its users get no answer" for name in ("v286", "base")]
    experiment = Experiment.objects.get()
    assert (experiment.state, experiment.minimum_effect, experiment.confidence) == ("running", 0.05, 0.9)
    assert (experiment.min_samples, experiment.max_samples, experiment.automatic) == (30, 900, False)
    assert (experiment.guard_metric, experiment.guard_margin) == ("error_rate", 0.02)
    assert experiment.ramp == [{"hours": 0, "share": 0.1}, {"hours": 24, "share": 0.5}]


def test_what_is_not_given_is_as_the_model_has_it() -> None:
    document(*START)
    experiment = Experiment.objects.get()
    assert (experiment.metric, experiment.min_samples, experiment.automatic, experiment.ramp) == (
        "rating",
        50,
        True,
        [],
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"--arms": "v286=50,v9=50"}, "unknown version of support-chat 'v9'; known: v286, base"),
        ({"--arms": "v286=x,base=50"}, "'x' in 'v286=x,base=50' is not a number"),
        ({"--arms": "v286=inf,base=50"}, "is not finite"),
        ({"--arms": "base=50"}, "at least two arms"),
        ({"--control": "v9"}, "unknown version of support-chat 'v9'"),
        ({"--agent": "nobody"}, "unknown agent 'nobody'"),
        ({"--metric": "speed"}, "metric: unknown metric 'speed'"),
        ({"--ramp": "5:0.1"}, "ramp: hours start at 0 and rise"),
        ({"--minimum-effect": "nan"}, "minimum_effect must be a finite number"),
    ],
)
def test_what_makes_no_experiment_is_refused_in_one_line(changes: dict[str, str], problem: str) -> None:
    given = {**dict(zip(START[1::2], START[2::2], strict=True)), **changes}
    message, code = refused("start", *(word for pair in given.items() for word in pair))
    assert problem in message
    assert code == 2
    assert not Experiment.objects.exists()


def test_a_second_one_leaves_no_draft() -> None:
    document(*START)
    message, code = refused(*START[:4], "second", *START[5:])
    assert (message, code) == ("first of support-chat is running; stop it first", 1)
    assert Experiment.objects.count() == 1


def test_the_status_names_users_who_do_not_fit_the_split(agent: Agent) -> None:
    control, challenger = arms_of(make_experiment(agent))
    use(control, 200, 60)
    use(challenger, 100, 90)
    text = run("status", "--agent", "support-chat")
    assert "first (running): The users do not fit the split." in text
    assert "base 200 of 300 where about 150 fit" in " ".join(text.split())
    assert document("status", "--agent", "support-chat")["sample_ratio"]["is_mismatched"]


def test_the_status_is_a_table_with_the_answer(agent: Agent) -> None:
    experiment = make_experiment(agent, guard_metric="error_rate")
    control, challenger = arms_of(experiment)
    use(control, 60, 30)
    use(challenger, 60, 36)
    text = run("status", "--agent", "support-chat")
    assert "Does v286 have a higher thumbs-up rate than base?" in text
    assert "+10.0 points" in text
    assert "first (running): No answer yet." in text
    assert "more rated users are needed." in text


def test_a_stopped_one_is_found_by_its_name_and_by_being_the_newest(agent: Agent) -> None:
    make_experiment(agent)
    assert document("stop", "--agent", "support-chat")["verdict"] == "stopped"
    assert document("status", "--agent", "support-chat", "--name", "first")["state"] == "stopped"
    assert document("status", "--agent", "support-chat")["name"] == "first"
    assert refused("stop", "--agent", "support-chat")[1] == 1


@pytest.mark.database
def test_there_is_none_to_look_at(agent: Agent) -> None:
    assert refused("status", "--agent", "support-chat") == (
        "support-chat has no experiment; 'experiment start' makes one",
        2,
    )
    make_experiment(agent)
    assert "no experiment 'x'; there are: first" in refused("status", "--agent", "support-chat", "--name", "x")[0]


def test_an_arm_is_promoted(agent: Agent) -> None:
    make_experiment(agent)
    assert "it has: v286, base" in refused("promote", "--agent", "support-chat", "--arm", "v9")[0]
    assert document("promote", "--agent", "support-chat", "--arm", "v286")["state"] == "stopped"
    assert Deployment.champion(agent) == version_of(agent)


@pytest.mark.database
def test_the_list_shows_all_or_those_of_an_agent(agent: Agent) -> None:
    make_experiment(agent)
    make_experiment(Agent.objects.create(name="other"), running=False)
    assert len(document("list")["experiments"]) == 2
    (row,) = document("list", "--agent", "other")["experiments"]
    assert (row["name"], row["agent"], row["state"]) == ("first", "other", "draft")
    assert "A draft" in run("list")


@pytest.mark.database
def test_a_version_is_compared_with_the_best_of_its_own_answers(agent: Agent) -> None:
    Deployment.objects.create(agent=agent, version=version_of(agent), target="ollama", alias="champion")
    arms = ("--arms", "v286@1=50,v286@4=50", "--control", "v286@1")
    shown = document("start", "--agent", "support-chat", "--name", "first", *arms)
    assert [(arm["version"], arm["is_control"]) for arm in shown["arms"]] == [("v286@1", True), ("v286@4", False)]
    assert shown["warnings"] == [
        "the first answer is given: support-chat has no judge yet: run 'auto_label --agent support-chat'"
    ]
    assert refused("promote", "--agent", "support-chat", "--arm", "v286")[0].endswith("it has: v286@1, v286@4")
    run("promote", "--agent", "support-chat", "--arm", "v286@4")
    assert Deployment.objects.get().best_of == 4


@pytest.mark.database
@pytest.mark.parametrize(
    ("arms", "problem"),
    [
        ("v286@9=50,base=50", "the best of 9 answers cannot be asked for: choose 1 to 8"),
        ("v286@many=50,base=50", "'v286@many' is not a version with a number of answers, such as v2@4"),
        ("base=50,base@1=50", "each version once, or with different numbers of answers"),
    ],
)
def test_a_number_of_answers_that_makes_no_arm_is_refused(arms: str, problem: str) -> None:
    message, code = refused(*START[:6], arms, "--control", "base")
    assert (problem in message, code) == (True, 2)
    assert not Experiment.objects.exists()
