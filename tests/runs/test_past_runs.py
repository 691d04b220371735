"""What past runs say about the next one."""

import json
import shutil
import subprocess
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from rl.base.records import silent
from rl.config import TrainingConfig
from rl.dataset_builder import DataOptions
from rl.hardware import TrainingEstimate, assumed_speed, detect_hardware
from rl.models import Agent, ModelVersion, TrainingRun, TrainingSet
from rl.runs import past_runs
from rl.runs.dry_run import dry_run, model_shape
from rl.runs.past_runs import TimedModel, experience
from rl.runs.run import RunOptions
from rl.runs.stage_log import COSTS
from tests.dataset_builder.ratings import rate_prompts
from tests.hardware.machines import LAPTOP, SERVER
from tests.hardware.test_cost import SMALL, TIMED

pytestmark = pytest.mark.django_db
LLAMA = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}


@pytest.fixture
def rows(agent: Agent, data_dir) -> TrainingSet:
    made = TrainingSet.objects.create(
        agent=agent, method="dpo", content_hash="x", train_rows=10, heldout_rows=0, feedback_count=1, val_split=0
    )
    made.directory.mkdir(parents=True)
    said = [{"role": "user", "content": "x" * 30}]
    row = {"prompt": said, "chosen": said, "rejected": [{"role": "assistant", "content": "x" * 10}]}
    (made.directory / "train.jsonl").write_text(json.dumps(row) + "\n")
    return made


@pytest.fixture
def past(agent: Agent, rows: TrainingSet, tmp_path):
    """Makes a run whose steps took so many seconds, and 5 more its start; each one is newer than those before it."""
    base = tmp_path / "model"
    base.mkdir()
    (base / "config.json").write_text(json.dumps(LLAMA))
    (base / "model.safetensors").write_bytes(b"weights")
    (base / "vocab.json").write_text("{}")
    made: list[TrainingRun] = []

    def took(seconds: float, **changes) -> TrainingRun:
        started = timezone.now() + timedelta(hours=len(made))
        base_model = changes.pop("base_model", str(base))
        version = ModelVersion.objects.create(
            agent=agent, name=f"v{len(made)}", base_model=base_model, feedback_count=1
        )
        values = {
            "method": "dpo",
            "state": TrainingRun.State.SUCCEEDED,
            "attempt": 1,
            "config": TrainingConfig().as_dict(),
            "hardware": asdict(LAPTOP),
            "options": RunOptions(data=DataOptions()).as_dict(),
            "training_set": rows,
            "version": version,
            "started_at": started,
            "finished_at": started + timedelta(seconds=seconds),
            **changes,
        }
        made.append(TrainingRun.objects.create(agent=agent, **values))
        made[-1].directory.mkdir(parents=True)
        costs = {"seconds": {"start-up": 5.0, "steps": seconds}, "cpu_seconds": {}, "peak_memory_bytes": 3 * 10**9}
        (made[-1].directory / COSTS).write_text(json.dumps(costs))
        return made[-1]

    return took


@pytest.fixture
def learned(tmp_path):
    parts = {"start-up": 10.0, "steps": 10.0, "export": 30.0}
    said = TrainingEstimate(steps=1, seconds=50.0, peak_memory_bytes=2 * 10**9, parts=parts)
    return lambda: experience("dpo", str(tmp_path / "model"), LAPTOP, lambda run: said)


def test_without_runs_nothing_is_learned(agent, learned):
    assert learned() is None


def test_one_run_gives_a_ratio_for_each_part_and_no_error(past, learned):
    past(20)
    assert learned().ratios == {"start-up": 0.5, "steps": 2.0}  # it did not come to an export
    assert (learned().runs, learned().memory_ratio, learned().error) == (1, 1.5, None)


def test_the_error_is_what_the_runs_before_would_have_said(past, learned):
    for seconds in (20, 40, 40):  # after 2.0: 45 s instead of 25; after a median of 3.0: 45 s instead of 35
        past(seconds)
    assert learned().ratios["steps"] == 4.0
    assert learned().error == pytest.approx(((45 / 25) * (45 / 35)) ** 0.5)


def test_only_the_newest_runs_count(past, learned):
    for seconds in (1000, 1000, *[20] * past_runs.RUNS):
        past(seconds)
    assert (learned().runs, learned().ratios["steps"], learned().error) == (past_runs.RUNS, 2.0, 1.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "kto"},
        {"base_model": "/models/larger"},
        {"attempt": 2},
        {"state": TrainingRun.State.FAILED},
        {"version": None},
        {"training_set": None},
        {"hardware": {}},
        {"options": {"num_processes": 2, "data": {}}},
        {"hardware": asdict(SERVER)},
        {"hardware": asdict(replace(LAPTOP, usable_cores=4))},
    ],
)
def test_runs_that_say_nothing_about_this_one_do_not_count(past, learned, changes):
    past(20, **changes)
    assert learned() is None


def test_a_run_whose_folder_was_tidied_up_or_is_damaged_does_not_count(past, learned):
    shutil.rmtree(past(20).directory)
    (past(20).directory / COSTS).write_text('{"seconds": ')
    assert learned() is None


def test_a_dry_run_says_what_it_learned(agent, past, monkeypatch, tmp_path):
    monkeypatch.setattr("rl.runs.dry_run.detect_hardware", lambda path: LAPTOP)
    rate_prompts(agent, 3)
    options = RunOptions(data=DataOptions(min_samples=1, val_split=0), base_model=str(tmp_path / "model"))
    before = dry_run(agent, TrainingConfig(), options)
    assert before.document["experience"] is None
    assert "Cost here (a guess by the kind of machine, right within a factor of 3)" in before.tables
    past(100)
    past(100)
    after = dry_run(agent, TrainingConfig(), options)
    ratios, was, now = after.document["experience"]["ratios"], before.estimate.parts, after.estimate.parts
    assert now["steps"] == pytest.approx(was["steps"] * ratios["steps"])
    assert now["start-up"] == pytest.approx(5.0, rel=0.01)
    assert now["loading the model"] == was["loading the model"]
    assert after.document["estimate"]["seconds"] == pytest.approx(sum(now.values()))
    title = list(after.tables)[-1]
    assert "learned from the last 2 runs on this machine, which were off by a factor of 1.0" in title
    assert after.tables[title]["  start-up"] == "0.1 minutes"


@pytest.mark.database
def test_the_second_estimate_of_a_like_run_is_what_the_first_took(agent, past, monkeypatch, tmp_path, rows):
    """By the recorded seconds of a run over the same rows."""
    monkeypatch.setattr("rl.runs.dry_run.detect_hardware", lambda path: LAPTOP)
    rate_prompts(agent, 3)
    options = RunOptions(data=DataOptions(min_samples=1, val_split=0), base_model=str(tmp_path / "model"))
    planned = dry_run(agent, TrainingConfig(), options)
    run = past(100)
    took = dict.fromkeys(planned.estimate.parts, 7.0)
    rows.train_rows = planned.survey.train_rows
    rows.save()
    (run.directory / COSTS).write_text(
        json.dumps({"seconds": took, "cpu_seconds": took, "peak_memory_bytes": 3 * 10**9})
    )
    second = dry_run(agent, TrainingConfig(), options).estimate
    assert second.seconds == pytest.approx(sum(took.values()), rel=0.25)
    assert second.peak_memory_bytes == pytest.approx(3 * 10**9, rel=0.25)


CONFIG = TrainingConfig()


@pytest.fixture
def model(data_dir: Path, tmp_path: Path) -> TimedModel:
    return TimedModel(tmp_path, SMALL, LAPTOP)


@pytest.fixture
def timed(monkeypatch) -> list[list[str]]:
    """The commands that were run; each says TIMED."""
    commands = []

    def run(command, **options):
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, f"a warning\n{json.dumps(TIMED.as_dict())}\n", "")

    monkeypatch.setattr("rl.runs.past_runs.subprocess.run", run)
    return commands


def stored(data_dir: Path) -> Path:
    (file,) = (data_dir / "speeds").iterdir()
    return file


def test_a_machine_is_timed_once(model, timed):
    assert model.speed(CONFIG) == assumed_speed(SMALL, LAPTOP, half=False)
    for _ in range(2):
        model.measure(CONFIG, "dpo", silent)
    assert model.speed(CONFIG) == TIMED
    ((*_, module, folder, method, precision),) = timed
    assert (module, folder, method, precision) == ("rl.lm.timing", str(model.folder), "rl.training.dpo", "auto")


@pytest.mark.parametrize(
    "change", [{"hardware": SERVER}, {"hardware": replace(LAPTOP, usable_cores=4)}, {"shape": replace(SMALL, layers=4)}]
)
def test_what_was_timed_on_another_machine_or_model_does_not_count(model, timed, change):
    model.measure(CONFIG, "dpo", silent)
    other = replace(model, **change)
    assert not other.speed(CONFIG).measured
    assert not model.speed(CONFIG.with_overrides({"precision": "bf16"})).measured
    other.measure(CONFIG, "dpo", silent)
    assert (len(timed), other.speed(CONFIG)) == (2, TIMED)


def test_a_copy_of_the_model_is_known_and_another_template_is_timed_anew(model, timed, tmp_path):
    model.measure(CONFIG, "dpo", silent)
    copy = replace(model, folder=tmp_path / "copy")
    assert copy.speed(CONFIG) == TIMED
    copy.folder.mkdir()
    (copy.folder / "chat_template.jinja").write_text("{{ messages }}")
    assert not copy.speed(CONFIG).measured


@pytest.mark.parametrize("text", ["", "{", "[]", '{"of": {}}', '{"of": {}, "speed": {}}'])
def test_a_damaged_file_is_made_again(model, timed, data_dir, text):
    model.measure(CONFIG, "dpo", silent)
    stored(data_dir).write_text(text)
    assert not model.speed(CONFIG).measured
    model.measure(CONFIG, "dpo", silent)
    assert model.speed(CONFIG) == TIMED


def test_a_file_of_another_machine_under_our_name_does_not_count(model, timed, data_dir):
    model.measure(CONFIG, "dpo", silent)
    file = stored(data_dir)
    document = json.loads(file.read_text())
    document["of"]["device"] = ["Another processor", 2]
    file.write_text(json.dumps(document))
    assert not model.speed(CONFIG).measured


@pytest.mark.parametrize(
    ("done", "reason"),
    [
        (subprocess.CompletedProcess([], 1, "", "Traceback\nModuleNotFoundError: No module named 'torch'\n"), "torch"),
        (subprocess.CompletedProcess([], 0, "nothing that is JSON", ""), "Expecting value"),
        (subprocess.CompletedProcess([], 0, "", ""), "nothing came out"),
        (subprocess.TimeoutExpired("python", 180), "timed out"),
        (OSError("no memory"), "no memory"),
    ],
)
def test_a_machine_that_cannot_be_timed_is_assumed_and_the_log_says_why(model, monkeypatch, done, reason):
    def run(*command, **options):
        if isinstance(done, Exception):
            raise done
        return done

    monkeypatch.setattr("rl.runs.past_runs.subprocess.run", run)
    told: dict[str, dict] = {}
    model.measure(CONFIG, "dpo", told.__setitem__)
    assert "could not be timed" in told["log"]["text"]
    assert reason in told["log"]["text"]
    assert model.speed(CONFIG) == assumed_speed(SMALL, LAPTOP, half=False)


@pytest.mark.learn
@pytest.mark.slow
def test_this_machine_is_really_timed(tiny_base: Path, data_dir: Path):
    shape = model_shape(tiny_base)
    assert shape is not None
    model, told = TimedModel(tiny_base, shape, detect_hardware(data_dir)), {}
    model.measure(CONFIG, "dpo", told.__setitem__)
    assert "log" not in told
    speed = model.speed(CONFIG)
    assert speed.measured
    assert speed.forward < speed.training
    assert speed.head < speed.head_training
    assert speed.runtime_bytes > 10**8
    assert 1 < speed.prompt_tokens < 100
