"""docs/coming-from/ocd.md: each line of it is done, and its table of weights is that of the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rl.config.reward_weights import decision_weights
from rl.from_systems.ocd.weights import WEIGHTS
from rl.models import Agent
from tests.from_systems.page import Reader, path_of

PAGE = path_of("ocd")


@pytest.mark.django_db(transaction=True)
def test_every_line_of_the_page_can_be_done(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    example = PAGE.read_text().split("```json\n")[1].split("```")[0]
    (tmp_path / "decisions.jsonl").write_text(example)
    monkeypatch.chdir(tmp_path)
    reader = Reader()
    reader.follow(PAGE)
    rows = [json.loads(line) for line in reader.answers[-1].splitlines()]
    rewards = {row["metadata"]["decisionId"]: row["reward"] for row in rows}
    assert rewards["d-1"] == pytest.approx(1.64)
    assert rewards["d-2"] == pytest.approx(-0.5 - 0.1 * 0.7 + 0.5 * 0.5 - 0.2 * 0.2)
    assert Agent.objects.get().name == "FILER"


@pytest.mark.parametrize("agent_type", [*WEIGHTS, "GUARDRAIL"])
def test_the_weights_are_those_of_the_code(agent_type: str):
    [cell] = re.findall(rf"^\| {agent_type}[^|]*\| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    shown = {name: float(weight) for name, weight in re.findall(r"(\w+) ([\d.]+)", cell)}
    weights = {name: weight for names in decision_weights(agent_type).values() for name, weight in names.items()}
    assert shown == weights


def test_the_page_stays_short():
    assert len(PAGE.read_text().splitlines()) < 130
