"""Whether an agent got better: what each measured version is drawn as, and when it was put into use."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from rl.models import Agent, Deployment, Evaluation, ModelVersion, TrainingRun
from rl.operations import audit
from rl.web.version_figures import standing
from rl.web.version_history import measured_versions
from tests.admin.records import make_evaluation, make_training_set, make_version

pytestmark = pytest.mark.database

FRESH = {"kind": "fresh", "share": {"value": 0.71, "low": 0.58, "high": 0.82}}
PICKS = {"kind": "picks", "share": {"value": 0.4, "low": 0.1, "high": 0.8}}
MARGINS = {"kind": "margins", "difference": {"value": 0.1, "low": -0.1, "high": 0.3}}
OF_NEW = {"value": 0.8, "low": 0.7, "high": 0.9}


def measured(agent: Agent, name: str, report: dict, **fields) -> Evaluation:
    version = make_version(agent, name, **{key: fields.pop(key) for key in ("parent",) if key in fields})
    return make_evaluation(version, make_training_set(agent, int(name[1:])), report=report, **fields)


def history_of(agent: Agent):
    return measured_versions(agent, list(agent.versions.select_related("run", "weights")))


def test_the_share_that_decided_is_drawn_against_what_it_was_measured_against(agent: Agent) -> None:
    first = measured(agent, "v1", {"evidence": [FRESH, MARGINS], "decided_by": "fresh"})
    picked = {"evidence": [PICKS, FRESH, MARGINS], "decided_by": "fresh"}
    second = measured(agent, "v2", picked, against=first.version)
    bars = [standing(evaluation) for evaluation in (first, second)]
    assert [(bar.value, bar.low, bar.high, bar.level, bar.against, bar.colour) for bar in bars if bar] == [
        (71.0, 58.0, 82.0, 50.0, "base", "good"),
        (71.0, 58.0, 82.0, 50.0, "v1", "good"),
    ]


@pytest.mark.parametrize(
    ("measure", "figure", "words"),
    [
        ({"measure": "right"}, "reward", "It answers 80 % of 10 questions right (70 to 90 %); the base model 50 %."),
        ({"measure": "success"}, "reward", "It solves 80 % of 10 held-out tasks (70 to 90 %); the base model 50 %."),
        ({"measure": "reward"}, "reward", "It earns 80 % of the highest reward on 10 held-out prompts (70 to 90 %); "),
        ({}, "accuracy", "It ranks 80 % of 10 held-out pairs rightly (70 to 90 %); the base model 50 %."),
    ],
)
def test_where_no_answers_were_compared_the_base_model_is_the_line(agent, measure, figure, words: str) -> None:
    report = {**measure, "models": {"new": {figure: OF_NEW}}, "evidence": [MARGINS]}
    bar = standing(measured(agent, "v1", report))
    assert bar
    assert bar.text.startswith(words)
    assert (bar.value, bar.level, bar.against, bar.colour) == (80.0, 50.0, "base", "good")


def test_versions_come_in_the_order_in_which_they_were_made_with_their_promotions(
    agent: Agent, django_assert_num_queries
) -> None:
    report = {"evidence": [FRESH], "decided_by": "fresh"}
    rows = [measured(agent, f"v{number}", report).version for number in range(1, 5)]
    make_version(agent, "v9")  # which nobody measured
    measured(agent, "v10", {"reason": "an old report"})
    TrainingRun.objects.create(agent=agent, method="reward_model", version=rows[3])
    audit.record(audit.Action.PROMOTED, rows[1], agent=agent)
    audit.record(audit.Action.PROMOTED, Agent.objects.create(name="other"))
    versions = list(agent.versions.select_related("run"))
    with django_assert_num_queries(2):
        history = measured_versions(agent, versions)
    assert [(row.version.name, row.promoted_at is not None) for row in history] == [
        ("v1", False),
        ("v2", True),
        ("v3", False),
    ]


def test_each_rung_is_named_with_what_it_cost(agent: Agent) -> None:
    report = {"evidence": [FRESH], "decided_by": "fresh"}
    trained, told = (measured(agent, name, report).version for name in ("v1", "v2"))
    began = timezone.now()
    times = {"started_at": began, "finished_at": began + timedelta(seconds=150)}
    config = {"preferences": False, "full": False}
    TrainingRun.objects.create(agent=agent, method="mpo", version=trained, config=config, **times)
    told.instruction, told.weights = "Be brief.", trained
    told.save()
    alone = measured(agent, "v3", report).version
    alone.instruction = "Be brief."
    alone.save()
    assert [(row.version.name, row.rung, row.minutes) for row in history_of(agent)] == [
        ("v1", "adapter (sft)", 2.5),
        ("v2", "v1 with an instruction", None),
        ("v3", "the base model with an instruction", None),
    ]


def test_the_page_of_an_agent_draws_them_and_marks_the_one_in_use(staff: Client, agent: Agent) -> None:
    assert "Did it get better?" not in staff.get("/agents/support-chat/").content.decode()
    first = measured(agent, "v1", {"evidence": [FRESH], "decided_by": "fresh"}).version
    audit.record(audit.Action.PROMOTED, first, agent=agent)
    second = measured(agent, "v2", {"evidence": [PICKS], "decided_by": "picks"}, against=first).version
    Deployment.promote(second)
    text = staff.get("/agents/support-chat/").content.decode()
    assert 'aria-label="v1: It wins 71 % of fresh answers against the base model (58 to 82 %)."' in text
    assert "It is picked in 40 % of comparisons by people against v1 (10 to 80 %)." in text
    assert text.count('<span class="badge good">in use</span>') == text.count(">was in use</span>") == 1


def test_reports_of_any_release_open_the_page(staff: Client, agent: Agent) -> None:
    make_evaluation(make_version(agent), make_training_set(agent), report={"evidence": None, "models": None})
    assert staff.get("/agents/support-chat/").status_code == 200
    assert ModelVersion.objects.count() == 1
