"""Templates of the operator's, written by hand and taken from recorded prompts."""

from pathlib import Path

import pytest
import yaml

from rl.base.errors import BadFile, UsageError
from rl.dataset_builder import training_plan
from rl.dataset_builder.taking import take_template
from rl.dataset_builder.wording import find_answer_template, find_prompt_template, template_names, wording_of
from rl.models import Agent, Trace, prompt_key

pytestmark = pytest.mark.django_db
META = {"intent": {"type": "query", "domains": ["energy", "shift"], "entities": {"devices": ["Pump 4"]}}}


@pytest.fixture
def folder(settings, tmp_path) -> Path:
    settings.PROMPT_TEMPLATES_DIR = tmp_path / "templates"
    settings.PROMPT_TEMPLATES_DIR.mkdir()
    return settings.PROMPT_TEMPLATES_DIR


@pytest.fixture
def panel(db) -> Agent:
    return Agent.objects.create(name="panel", pair_type="both")


def add(agent: Agent, number: int, prompt: list[dict[str, str]], source: str, **details: object) -> Trace:
    names = {"external_id": f"{source}{number}", "prompt_key": prompt_key(prompt), "response": "x"}
    return Trace.objects.create(agent=agent, source=source, prompt=prompt, details=details, **names)


def simulate(agent: Agent, number: int, question: str) -> None:
    choice = {"scenario": "kpi" if number % 2 else "trend", "fixture": "live", "size": "hero", "pipeline_meta": META}
    add(agent, number, [{"role": "user", "content": question}], "command_center", **choice)


def record(agent: Agent, number: int, question: str, last: str = "Be exact.") -> Trace:
    user = f"WIDGETS: kpi, trend\nUSER: {question}\nABOUT: query|energy, shift|devices: Pump 4\nRules {{}}.\n{last}"
    return add(agent, number, [{"role": "system", "content": "JSON."}, {"role": "user", "content": user}], "gateway")


def test_a_file_is_a_template_under_its_name(folder: Path, panel: Agent):
    (folder / "ours.yaml").write_text('prompt: {widgets: "Q: {{question}}"}\nanswer: {fixture: "<{{fixture}}>"}')
    assert template_names("prompt") == ["plain", "command_center", "ours"]
    panel.prompt_template = panel.answer_template = "ours"
    assert wording_of(panel) == (find_prompt_template("ours"), find_answer_template("ours"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("answer: {fixture: '{{fixture}}'}", "has no section prompt"),
        ("promt: {}\nprompt: {}", "unknown key 'promt' .did you mean prompt"),
        ("prompt: {widgets: 5}", "widgets must be a text, or a list of messages"),
        ("prompt: {widgets: [{role: user}]}", "each message has role and content"),
        ("prompt: {widgets: [{role: wizard, content: x}]}", "role must be system, user or assistant"),
        ("prompt:\n  widgets: 'Q: {{quesion}}'", "unknown blank 'quesion' .did you mean question"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_wrong(folder: Path, text: str, problem: str):
    (folder / "ours.yaml").write_text(text)
    with pytest.raises(BadFile, match=problem):
        find_prompt_template("ours")


def test_an_unknown_template_is_refused_with_the_known_ones(folder: Path):
    with pytest.raises(UsageError, match=r"unknown answer template 'plan' .did you mean plain.*PROMPT_TEMPLATES_DIR"):
        find_answer_template("plan")


def test_a_recorded_prompt_becomes_a_template_with_blanks_for_what_is_known(folder: Path, panel: Agent):
    for number in range(2):
        simulate(panel, number, f"Load of pump {number}?")
    record(panel, 1, "Load of pump 1?", "Today is Monday.")
    newest = record(panel, 2, "Load of pump 0?", "Today is Tuesday.")
    assert "the gateway recorded 2 prompts" in training_plan(panel).wording
    taken = take_template(panel, "production")
    assert (taken.trace, taken.blanks) == (newest.pk, ("scenarios", "question", "domains", "entities"))
    assert taken.differing == ("Today is Tuesday.",)
    written = yaml.safe_load(taken.file.read_text())["prompt"]["widgets"][1]["content"]
    assert written.splitlines()[:3] == [
        "WIDGETS: {{scenarios}}",
        "USER: {{question}}",
        "ABOUT: query|{{domains}}|{{entities}}",
    ]
    panel.prompt_template = "production"
    assert training_plan(panel).wording == ""
    take_template(panel, "production", part="fixture")
    assert set(yaml.safe_load(taken.file.read_text())["prompt"]) == {"widgets", "fixture"}
    with pytest.raises(UsageError, match="has prompt.fixture already"):
        take_template(panel, "production", part="fixture")


@pytest.mark.database
def test_what_the_question_is_can_be_said(folder: Path, panel: Agent):
    trace = record(panel, 1, "Load?")
    with pytest.raises(UsageError, match="say with --question"):
        take_template(panel, "ours")
    taken = take_template(panel, "ours", question="Load?", trace=str(trace.pk))
    assert taken.blanks == ("question",)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"name": "../x"}, "name of a template"),
        ({"name": "plain"}, "choose another name"),
        ({"trace": "seven"}, "takes the id of a trace"),
        ({}, "recorded no prompt of panel"),
    ],
)
def test_what_cannot_be_taken_is_refused(folder: Path, panel: Agent, more: dict[str, str], problem: str):
    if "trace" in more:
        record(panel, 1, "Load?")
    with pytest.raises(UsageError, match=problem):
        take_template(panel, **{"name": "ours", **more})
