"""From other systems' scored answers to a reward model, and to a policy that learned from it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.commands.site import Site
from tests.guard_limits import NOISE_ALLOWED

pytestmark = pytest.mark.process


FEW = ("--batch-size", "8", "--max-new-tokens", "8", "--ppo-epochs", "1", "--max-steps", "2")
QUICK = ("--batch-size", "8", "--gradient-accumulation", "1", "--learning-rate", "1e-3", "--lora-r", "4")


def written(folder: Path, rows: Sequence[dict[str, Any]]) -> str:
    file = folder / "answers.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def n3_samples() -> list[dict[str, Any]]:
    return [
        {
            "prompt": f"Where is parcel {number}?",
            "response": f"Thank you, parcel {number} is on its way." if number % 2 else f"Wait for parcel {number}.",
            "score": 0.8 + number / 100 if number % 2 else number / 100,
            "runId": f"run-{number}",
            "createdAt": "2026-02-01T12:00:00Z",
        }
        for number in range(10)
    ]


def decisions(count: int) -> list[dict[str, Any]]:
    """Filed at once is right, waiting is wrong. Two thirds have a person's word, the others what came of them."""
    rows = []
    for number in range(count):
        right = number % 2 == 0
        word = {"userFeedback": "CONFIRMED" if right else "CORRECTED"}
        row = {
            "id": f"decision-{number}",
            "agentType": "FILER",
            "state": {"item": f"Item {number}"},
            "action": {"swimlane": "Expedite" if right else "Wait"},
            "confidence": 0.7,
            "createdAt": "2026-02-01T12:00:00Z",
        }
        rows.append({**row, **(word if number % 3 else {"reward": 1.5 if right else -1.0})})
    return rows


def learn_from_the_reward_model(site: Site, agent: str) -> None:
    [(version,)] = site.query("SELECT name FROM rl_modelversion WHERE name LIKE 'reward-%'")
    site.change("UPDATE rl_agent SET guard_limits = ? WHERE name = ?", json.dumps(NOISE_ALLOWED), agent)
    site.run("train_ppo", "--agent", agent, "--reward-model", version, *FEW)
    [(points,)] = site.query('SELECT "values" FROM rl_metricpoint ORDER BY run_id DESC, step DESC LIMIT 1')
    assert 0 < json.loads(points)["reward_model"] < 1
    runs = site.query("SELECT method, state FROM rl_trainingrun ORDER BY id")
    assert runs == [("reward_model", "succeeded"), ("ppo", "succeeded")]


@pytest.mark.slow
def test_ten_scores_of_n3_train_a_reward_model_and_ppo_on_it(site: Site, tmp_path: Path):
    imported = site.json("import_traces", "--format", "n3", "--agent", "planner", written(tmp_path, n3_samples()))
    assert imported["feedback"]["imported"] == 10
    [plan] = site.json("training_plan", "--agent", "planner")["agents"]
    [of_model] = [method for method in plan["methods"] if method["method"] == "reward_model"]
    assert (of_model["rows"], of_model["ready"]) == (10, True)
    document = site.json("train_reward_model", "--agent", "planner", *QUICK)
    assert document["evaluation"]["verdict"] == "undecided"
    learn_from_the_reward_model(site, "planner")
    version = document["version"]
    few = ("--num-generations", "2", "--max-new-tokens", "8", "--max-steps", "1", "--batch-size", "4")
    grpo = site.json("train_grpo", "--agent", "planner", "--reward-model", version, *few)
    assert (grpo["steps"], grpo["evaluation"]["measure"]) == (1, "reward")


@pytest.mark.slow
def test_200_scored_decisions_train_a_reward_model_and_ppo_on_it(site: Site, tmp_path: Path):
    site.run("import_traces", "--format", "ocd_decision", "--agent", "filer", written(tmp_path, decisions(200)))
    site.run("calculate_rewards", "--agent", "filer")
    evaluation = site.json("train_reward_model", "--agent", "filer", *QUICK)["evaluation"]
    assert evaluation["models"]["new"]["accuracy"]["low"] > 0.5
    assert evaluation["brier_score"] < evaluation["brier_score_of_mean"] / 2
    assert "it scores answers, and is never promoted" in evaluation["reason"]
    assert site.query("SELECT train_rows + heldout_rows FROM rl_trainingset") == [(200,)]
    again = site.json("evaluate_model", "--agent", "filer", "--version", evaluation["version"])
    assert again["brier_score"] == pytest.approx(evaluation["brier_score"])
    learn_from_the_reward_model(site, "filer")
