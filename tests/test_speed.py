"""The benchmark of speed, short: whether all ways compute the same. Its times are measured by ``python3 -m benchmarks``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from defusedxml import ElementTree
from django.conf import settings

OF_TRAINING = ["dpo-own", "dpo-shared", "dpo-top", "kto", "mixed", "reward_model", "grpo", "ppo"]
OTHERS = ["evaluation", "generation", "freezing", "import", "ingestion", "start-up"]


@pytest.mark.slow
@pytest.mark.parametrize("names", [OF_TRAINING, OTHERS], ids=["training", "others"])
def test_every_way_that_is_timed_computes_the_same(tmp_path: Path, names: list[str]):
    environment = {**os.environ, "DATA_DIR": str(tmp_path / "data"), "DEBUG": "1"}
    files = ["--json", str(tmp_path / "figures.json"), "--picture", str(tmp_path / "figures.svg")]
    command = [sys.executable, "-m", "benchmarks", "--short", "--only", ",".join(names), *files]
    ended = subprocess.run(
        command, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr[-2000:]
    assert "all ways in float32 agree to 0.0001" in ended.stdout
    workloads = json.loads((tmp_path / "figures.json").read_text())["workloads"]
    assert {name: rows[-1]["way"] for name, rows in workloads.items()} == dict.fromkeys(workloads, "ours")
    texts = [text.text for text in ElementTree.parse(tmp_path / "figures.svg").iter() if text.tag.endswith("text")]
    assert {*workloads} <= {*texts}
    assert [*workloads] == names


def test_a_workload_that_there_is_not_is_refused_with_those_that_there_are():
    command = [sys.executable, "-m", "benchmarks", "--only", "dpo"]
    ended = subprocess.run(command, cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2
    assert "unknown workload 'dpo'" in ended.stderr
    assert "known: dpo-own, dpo-shared" in ended.stderr
    known = ended.stderr.split("known: ")[1].strip().split(", ")
    assert {*known} == {*OF_TRAINING, *OTHERS}
