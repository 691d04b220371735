"""The speed of this machine: timed once, kept, and timed again where anything is different."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from rl.base.records import silent
from rl.config import TrainingConfig
from rl.hardware import assumed_speed, detect_hardware
from rl.runs.dry_run import model_shape
from rl.runs.machine_speed import TimedModel
from tests.hardware.machines import LAPTOP, SERVER
from tests.hardware.test_cost import SMALL, TIMED

pytestmark = pytest.mark.django_db
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

    monkeypatch.setattr("rl.runs.machine_speed.subprocess.run", run)
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

    monkeypatch.setattr("rl.runs.machine_speed.subprocess.run", run)
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
