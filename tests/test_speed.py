"""The benchmark of speed, short: whether all ways compute the same. Its times are measured by ``python3 -m benchmarks``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from defusedxml import ElementTree
from django.conf import settings

pytestmark = pytest.mark.process


OF_TRAINING = ["dpo-own", "dpo-shared", "dpo-top", "kto", "mixed", "reward_model", "grpo", "ppo"]
WORKLOADS = [*OF_TRAINING, "evaluation", "generation", "freezing", "import", "ingestion", "start-up"]


@pytest.mark.slow
def test_every_way_that_is_timed_computes_the_same(tmp_path: Path):
    of_its_own = {"DATA_DIR": str(tmp_path / "data"), "DEBUG": "1", "DJANGO_SETTINGS_MODULE": "backend.settings"}
    environment = {**os.environ, **of_its_own}
    files = ["--json", str(tmp_path / "figures.json"), "--picture", str(tmp_path / "figures.svg")]
    command = [sys.executable, "-m", "benchmarks", "--short", *files]
    ended = subprocess.run(
        command, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, timeout=1800, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr[-2000:]
    assert "all ways in float32 agree to 0.0001" in ended.stdout
    workloads = json.loads((tmp_path / "figures.json").read_text())["workloads"]
    assert {name: rows[-1]["way"] for name, rows in workloads.items()} == dict.fromkeys(workloads, "ours")
    texts = [text.text for text in ElementTree.parse(tmp_path / "figures.svg").iter() if text.tag.endswith("text")]
    assert {*workloads} <= {*texts}
    assert {*workloads} == {*WORKLOADS}


@pytest.mark.learn
def test_a_workload_that_there_is_not_is_refused_with_those_that_there_are(capsys: pytest.CaptureFixture[str]):
    from benchmarks.__main__ import _parser
    from benchmarks.speed import run

    assert run(_parser().parse_args(["--only", "dpo"])) == 2
    told = capsys.readouterr().err
    assert "unknown workload 'dpo'" in told
    assert "known: dpo-own, dpo-shared" in told
    assert {*told.split("known: ")[1].strip().split(", ")} == {*WORKLOADS}
