"""docs/coming-from/ocd.md: each line of it is done, and its table of weights is that of the code."""

import json
import re
from pathlib import Path

import pytest

from rl.config.reward_weights import decision_weights
from rl.from_systems.ocd.formulas import WEIGHTS
from rl.models import Agent, ModelVersion
from tests.from_systems.page import Reader, Step, path_of

PAGE = path_of("ocd")
FEEDBACK = ("CONFIRMED", "CORRECTED", "OVERRIDDEN")


@pytest.mark.learn
@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_every_line_of_the_page_can_be_done(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    Agent.objects.create(name="FILER", base_model="tiny", context_length=128, response_length=8)
    example = json.loads(PAGE.read_text().split("```json\n")[1].split("```")[0])
    others = [{**example, "id": f"o-{n}", "state": {"n": n}, "userFeedback": FEEDBACK[n % 3]} for n in range(40)]
    (tmp_path / "decisions.jsonl").write_text("\n".join(json.dumps(row) for row in [example, *others]))
    monkeypatch.chdir(tmp_path)

    def before(step: Step) -> None:
        if step.text.startswith("export REWARD"):
            reader.known["REWARD"] = ModelVersion.objects.get().name

    reader = Reader(before=before)
    reader.follow(PAGE)
    assert json.loads((tmp_path / "evaluation-results.json").read_text())["field"] == "swimlane"
    for folder in ("ocd-filer-v1-exported", "ocd-filer-json"):
        assert (tmp_path / "models" / folder / "merged" / "model.safetensors").exists()
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
    assert len(PAGE.read_text().splitlines()) < 160
