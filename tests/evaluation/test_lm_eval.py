"""A task of lm-evaluation-harness on the tiny model. The harness is real; what it is measured against is computed here."""

import json
import shutil
import sys
from collections.abc import Callable
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from django.core.management import CommandError, call_command

from rl.base.errors import BadFile, TrainingFailed, UsageError
from rl.base.records import silent
from rl.evaluation import Contest, lm_eval
from rl.evaluation.guards.measure import skip
from rl.evaluation.guards.rails import hold_to_task
from rl.evaluation.lm_eval import ModelScore, TaskScores, compare, in_words, read
from rl.lm import loading
from rl.models import Agent, Evaluation
from tests.commands.environments import environment_of
from tests.evaluation.conftest import PAIRS
from tests.evaluation.pair_sets import pair_set, version_on

pytestmark = pytest.mark.learn

TASK = """
task: parcels
dataset_path: json
dataset_kwargs: {data_files: {test: parcels.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: answer
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""
Question = dict[str, Any]


@pytest.fixture(scope="session")
def harness() -> str:
    """Its Python."""
    python = environment_of("lm-eval", borrows=True)
    [packages] = python.parent.parent.glob("lib/python*/site-packages")
    # The harness reads its own 13,000 task files at each start, which takes longer than all else.
    for shipped in (packages / "lm_eval/tasks").glob("*/"):
        shutil.rmtree(shipped, ignore_errors=True)
    return str(python)


@pytest.fixture
def task(tmp_path: Path) -> Path:
    (tmp_path / "parcels.yaml").write_text(TASK)
    (tmp_path / "parcels.jsonl").write_text('{"question": "Where?", "choices": ["Here.", "There."], "answer": 0}\n')
    return tmp_path / "parcels.yaml"


def right(model: Any, tokenizer: Any, question: Question) -> bool:
    """Whether the model finds the right choice the likeliest, by the sum of its tokens' log-probabilities."""
    prompt_ids = tokenizer(question["question"])["input_ids"]
    sums = []
    for choice in question["choices"]:
        whole = torch.tensor([tokenizer(f"{question['question']} {choice}")["input_ids"]])
        logs = model(input_ids=whole).logits[0, :-1].log_softmax(-1)
        sums.append(logs.gather(1, whole[0, 1:, None])[len(prompt_ids) - 1 :].sum().item())
    return sums.index(max(sums)) == question["answer"]


def questions(base: Path, adapter: Path) -> list[Question]:
    """Eight: the base model is right about all of them, and the adapter about two."""
    model, tokenizer = loading.load_base(str(base)).eval(), loading.load_tokenizer(str(base))
    words = ["Open Orders.", "Choose Track.", "It is late.", "We are sorry.", "Please wait.", "On the van.", "Call us."]
    texts = [f"Where is {what}?" for what in ("my parcel", "the invoice", "your shop")]
    pool = [
        {"question": question, "choices": list(choices), "answer": answer}
        for question, choices, answer in product(texts, product(words, words), (0, 1))
        if choices[0] < choices[1]
    ]
    with torch.no_grad():
        known = [question for question in pool if right(model, tokenizer, question)]
        with loading.with_weights(model, adapter) as adapted:
            agreed = [question for question in known if right(adapted, tokenizer, question)]
    forgotten = [question for question in known if question not in agreed]
    return [*forgotten[:6], *agreed[:2]]


@pytest.mark.slow
@pytest.mark.django_db
def test_a_version_that_forgets_a_task_is_rejected(
    agent: Agent, data_dir: Path, tiny_base: Path, adapter: Path, harness: str, task: Path, settings: Any
):
    settings.LM_EVAL_PYTHON = harness
    task.with_name("parcels.jsonl").write_text(
        "".join(json.dumps(question) + "\n" for question in questions(tiny_base, adapter))
    )
    pair_set(agent, PAIRS)
    version_on(agent, tiny_base, adapter)
    output = StringIO()
    with pytest.raises(CommandError) as error:
        call_command("evaluate_model", "--agent", agent.name, "--lm-eval", str(task), stdout=output, verbosity=0)
    assert error.value.returncode == 4
    assert (
        "task parcels: acc 25.0% (standard error 16.4%), 100.0% (standard error 0.0%) in use, 8 rows"
        in output.getvalue()
    )
    report = Evaluation.objects.get().report
    assert (report["task"]["new"], report["task"]["current"], report["task"]["rows"]) == (0.25, 1.0, 8)
    [rail] = [rail for rail in report["guards"]["rails"] if rail["name"] == "task_loss"]
    assert (rail["broken"], rail["value"]) == (True, 0.75)
    assert "task_loss (acc of parcels 0.250, 1.000 in use, 8 rows, limit 0.02)" in report["reason"]
    assert {file.name for file in task.parent.iterdir()} >= {"parcels.yaml", "parcels.jsonl"}


def score(values: str, metric: str = "acc") -> ModelScore:
    """One row a digit: 1 is right."""
    rows = {str(number): float(value) for number, value in enumerate(values)}
    return ModelScore("parcels", metric, sum(rows.values()) / len(rows), 0.1, rows)


def loss(new: str, current: str) -> TaskScores:
    return compare(score(new), score(current))


@pytest.mark.parametrize(
    ("new", "broken"), [("11111111", False), ("01111111", False), ("00011111", False), ("00001111", True)]
)
def test_a_loss_breaks_beyond_the_limit_and_beyond_chance(new, broken):
    assert hold_to_task(loss(new, "11111111"), 0.02).broken is broken
    assert not hold_to_task(loss(new, "11111111"), 0.6).broken
    assert not hold_to_task(loss("11111111", new), 0.02).broken


def test_one_row_says_nothing_and_no_task_breaks_nothing():
    assert not hold_to_task(loss("0", "1"), 0.02).broken
    rail = hold_to_task(None, 0.02)
    assert (rail.value, rail.broken, rail.text) == (None, False, "no task was named")


def test_where_no_answers_are_looked_at_the_task_still_rejects():
    agent = Agent()
    assert "task_loss" in skip("no prompts are held out", agent, loss("0000", "1111")).reason
    assert skip("no prompts are held out", agent, None).reason == ""
    agent.guard_limits = {"task_loss": None}
    assert skip("no prompts are held out", agent, loss("0000", "1111")).reason == ""


def test_models_on_different_rows_are_not_compared():
    with pytest.raises(TrainingFailed, match="different rows of parcels"):
        loss("01", "011")


@pytest.fixture
def leave_files(tmp_path: Path) -> Callable[..., Path]:
    """What the harness leaves behind."""

    def leave(figures: dict[str, Any], rows: list[dict[str, Any]]) -> Path:
        (tmp_path / "results_2026.json").write_text(json.dumps({"results": {"parcels": figures}}))
        (tmp_path / "samples_parcels_2026.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return tmp_path

    return leave


def test_the_first_accuracy_is_read_with_the_rows_of_its_filter(leave_files):
    figures = {
        "alias": "parcels",
        "f1,none": 0.1,
        "exact_match,strict": 0.5,
        "exact_match_stderr,strict": "N/A",
        "acc,none": 1,
    }
    rows = [
        {"doc_id": number, "filter": kind, "exact_match": number if kind == "strict" else 1}
        for number, kind in product(range(2), ("strict", "loose"))
    ]
    model_score = read(leave_files(figures, rows))
    assert model_score == ModelScore("parcels", "exact_match", 0.5, None, {"0": 0.0, "1": 1.0})
    shown = {"name": "parcels", "metric": "acc", "rows": 2, "new": 0.5, "new_stderr": None, "current": 1.0}
    words = "task parcels: acc 50.0%, 100.0% (standard error 0.0%) in use, 2 rows"
    assert in_words({**shown, "current_stderr": 0.0}) == words


def test_results_without_an_accuracy_or_that_cannot_be_read_are_refused(leave_files, tmp_path):
    with pytest.raises(TrainingFailed, match="task parcels has no accuracy; its metric_list needs one of acc"):
        read(leave_files({"f1,none": 0.1}, []))
    with pytest.raises(TrainingFailed, match="no results that can be read"):
        read(leave_files({"acc,none": 0.1}, [{"doc_id": 0, "filter": "none"}]))
    with pytest.raises(TrainingFailed, match="no results that can be read"):
        read(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: [one, two]", "it has to describe one task"),
        ("task: {", "it is not YAML"),
        ("- task", "it is not a mapping"),
        ("task: x\ninclude: ../base.yaml", "is not in the folder of the task"),
        ("task: x\ndataset_kwargs: {data_files: {test: /etc/passwd}}", "/etc/passwd is not in the folder of the task"),
        ("task: x\ndataset_kwargs: {data_files: [a.jsonl, ../b.jsonl]}", "is not in the folder of the task"),
        ("task: x\ndataset_kwargs: {data_files: 'https://example.com/a.jsonl'}", "is not in the folder of the task"),
        ("task: x\ninclude: within.yaml", "is not in the folder of the task"),
    ],
)
def test_a_task_names_one_task_and_files_of_its_own_folder(task, text, message):
    task.with_name("within.yaml").write_text("dataset_kwargs: {data_dir: ..}")
    task.write_text(text)
    with pytest.raises(BadFile, match=message):
        lm_eval.check(str(task))


def test_a_task_may_include_another_of_its_folder_and_name_functions(task):
    task.with_name("within.yaml").write_text(f"include: {task.name}\ndoc_to_text: !function answers.text")
    task.write_text("include: within.yaml\ntask: x")
    assert lm_eval.check(str(task)) == task


@pytest.mark.parametrize("name", ["none.yaml", "task.yml", "a,b.yaml", "a*.yaml"])
def test_a_path_that_the_harness_would_read_otherwise_is_refused(tmp_path, name):
    if name != "none.yaml":
        (tmp_path / name).write_text(TASK)
    with pytest.raises(UsageError, match="--lm-eval"):
        lm_eval.check(str(tmp_path / name))


def test_without_the_package_it_is_said_how_to_get_it(settings, tmp_path):
    settings.LM_EVAL_PYTHON = ""
    with pytest.raises(UsageError, match="pip install lm_eval==.*, or set LM_EVAL_PYTHON"):
        lm_eval.interpreter()
    settings.LM_EVAL_PYTHON = str(tmp_path)
    with pytest.raises(UsageError, match="which is not a program"):
        lm_eval.interpreter()


def test_what_the_child_says_last_is_the_reason(settings, tiny_base, adapter, task):
    settings.LM_EVAL_PYTHON = sys.executable
    contest = Contest(str(tiny_base), adapter, None, 128, 16)
    with pytest.raises(TrainingFailed, match=r"lm-eval failed on parcels\.yaml: .*No module named lm_eval$"):
        lm_eval.measure(contest, task, silent)


@pytest.mark.django_db
def test_a_file_is_not_measured_on_a_task(agent: Agent, task):
    with pytest.raises(CommandError, match="--lm-eval does not go with it") as error:
        call_command("evaluate_model", "--agent", agent.name, "--artifact", "--lm-eval", str(task))
    assert error.value.returncode == 2
