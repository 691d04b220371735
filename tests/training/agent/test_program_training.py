"""What the tiny model of ``answering`` learns from programs that ask it over HTTP."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean, mean, stdev
from typing import Any

import pytest

from rl.base.errors import TrainingFailed
from rl.lm import checkpoints
from rl.training.agent import train as agent
from rl.training.agent.train import AgentTrainer, parts_of
from tests.training.agents import episodes, job, metrics, task
from tests.training.conftest import Listener, Row

pytestmark = pytest.mark.learn

PATIENT = """
chat = [user(task["prompt"])]
chat.append(ask(chat)["message"])
chat.append(user(task["prompt"]))
sys.exit(not ask(chat)["message"]["content"].startswith("Perhaps"))
"""
"""As the environment of that name: of himself he would rather thank."""
SEVERAL = """
words = [ask([user(f"Question number {number}?")])["message"]["content"] for number in range(1 + task["number"] % 3)]
sys.exit(not words[-1].startswith("Perhaps"))
"""
"""One conversation for each question, of which the last one counts."""


QUICK_ASK = """
import json, os, sys, socket
task = json.load(sys.stdin)
def ask(messages):
    host, _, path = os.environ["OPENAI_BASE_URL"].removeprefix("http://").partition("/")
    body = json.dumps({"messages": messages}).encode()
    head = "POST /%s/chat/completions HTTP/1.1\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n"
    with socket.create_connection(host.split(":")) as connection:
        connection.sendall((head % (path, len(body))).encode() + body)
        return json.loads(connection.makefile("rb").read().partition(b"\\r\\n\\r\\n")[2])["choices"][0]
def user(text):
    return {"role": "user", "content": text}
"""
"""As ``ASK``, in a fifth of the time that urllib takes to be imported: there are some hundred episodes here."""


def world(code: str, **options: Any) -> dict[str, Any]:
    return {"type": "program", "options": {"command": [sys.executable, "-S", "-c", QUICK_ASK + code], **options}}


def rows(count: int = 12, start: int = 0) -> list[Row]:
    return [task(number, prompt=f"Question number {number}?") for number in range(start, start + count)]


def train(base: Path, folder: Path, code: str, **overrides: Any) -> Listener:
    listener = Listener()
    options = {"environment": world(code), "max_length": 256, **overrides}
    agent.train(job(base, folder, rows(), rows(3, start=20), **options), listener)
    return listener


@pytest.mark.slow
def test_what_programs_reward_becomes_likelier(answering_base: Path, tmp_path: Path):
    """Measured with seeds 1, 2 and 5: 0.94 to 1, of 0.31 to 0.56 at first."""
    learning = {"max_steps": 8, "batch_size": 16, "num_generations": 8, "learning_rate": 1e-2, "eval_interval": 8}
    listener = train(answering_base, tmp_path, PATIENT, seed=5, temperature=0.7, epochs=2.0, **learning)
    told = episodes(listener)
    assert fmean(episode["success"] for episode in told[:16]) < 0.7
    assert fmean(episode["success"] for episode in told[-32:]) > 0.8
    assert {len(episode["turns"]) for episode in told} == {2}
    assert {step: of["heldout_success"] for step, of in metrics(listener).items() if step in (0, 8)} == {0: 0, 8: 1}


class Probe:
    """What TRL makes of the episodes of the first step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inputs: dict[str, Any] = {}
        self.passes: list[tuple[int, ...]] = []
        score, compute = AgentTrainer._generate_and_score_completions, AgentTrainer._compute_loss

        def score_and_keep(trainer: AgentTrainer, given: list[Any]) -> dict[str, Any]:
            self.inputs = score(trainer, given)
            self.episodes = trainer.rollout_func.episodes
            return dict(self.inputs)

        def compute_and_count(trainer: AgentTrainer, model: Any, inputs: dict[str, Any]) -> Any:
            self.passes.append(tuple(inputs["completion_ids"].shape))
            return compute(trainer, model, inputs)

        monkeypatch.setattr(AgentTrainer, "_generate_and_score_completions", score_and_keep)
        monkeypatch.setattr(AgentTrainer, "_compute_loss", compute_and_count)


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Probe:
    return Probe(monkeypatch)


def test_each_conversation_has_the_advantage_of_its_episode(answering_base: Path, tmp_path: Path, probe: Probe):
    shape = {"batch_size": 4, "gradient_accumulation": 2, "max_steps": 1, "seed": 3}
    told = episodes(train(answering_base, tmp_path, SEVERAL, **shape))
    asked = [1 + int(episode["task"]["number"]) % 3 for episode in told]
    assert [episode["info"]["conversations"] for episode in told] == asked
    assert sum(asked) > len(told), "else there is nothing to see"
    real = [number for number, count in enumerate(asked) for _ in range(count)]
    assert probe.episodes[: len(real)] == real
    rewards = [episode["reward"] for episode in told]
    expected = [
        (reward - mean(group)) / (stdev(group) + 1e-4) for group in (rewards[:4], rewards[4:]) for reward in group
    ]
    advantages = probe.inputs["advantages"].tolist()
    assert advantages[: len(real)] == pytest.approx([expected[number] for number in real], abs=1e-4)
    learned = (probe.inputs["tool_mask"] * probe.inputs["completion_mask"]).sum(1).tolist()
    tokens = [turn["tokens"] for episode in told for turn in episode["turns"]]
    assert learned == tokens + [0] * (len(learned) - len(real))
    assert probe.inputs["num_items_in_batch"] == sum(tokens)
    assert len(learned) % 2 == 0, "two passes share them"
    assert max(rows for rows, _ in probe.passes) <= 4, "no pass is larger than was asked for"


@pytest.mark.parametrize("loss", ["dapo", "grpo"])
def test_parts_of_a_pass_add_up_to_the_same_step(
    answering_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str
):
    shape = {"max_steps": 1, "seed": 3, "lora_dropout": 0.0, "loss_type": loss, "batch_size": 8}
    whole = train(answering_base, tmp_path / "whole", SEVERAL, **shape)
    cut = parts_of
    monkeypatch.setattr("rl.training.agent.train.parts_of", lambda inputs, most: cut(inputs, 3))
    parts = train(answering_base, tmp_path / "parts", SEVERAL, **shape)
    assert [episode["turns"] for episode in episodes(parts)] == [episode["turns"] for episode in episodes(whole)]
    for name in ("loss", "grad_norm"):
        assert metrics(parts)[1][name] == pytest.approx(metrics(whole)[1][name], rel=1e-3, abs=1e-6)


def test_a_command_that_fails_in_every_episode_is_told_at_once_and_ends_the_training(
    answering_base: Path, tmp_path: Path
):
    code = 'ask([user("?")]); raise LookupError("no shelf 7")'
    listener = Listener()
    with pytest.raises(
        TrainingFailed, match="no episode of the last 3 steps could be played; the last one: .*no shelf 7"
    ):
        agent.train(job(answering_base, tmp_path, rows(), environment=world(code, reward="answer")), listener)
    [warning] = [line for line in listener.log.splitlines() if "failed" in line]
    assert warning.startswith("the commands of all 8 episodes of a step failed: the command ended with exit code 1")


def test_a_command_that_never_asks_ends_the_training(answering_base: Path, tmp_path: Path):
    with pytest.raises(TrainingFailed, match="the command ended, and never asked the model at OPENAI_BASE_URL"):
        train(answering_base, tmp_path, "pass", num_generations=2, batch_size=2)


def test_a_stopped_training_goes_on_from_its_last_checkpoint(answering_base: Path, tmp_path: Path):
    from rl.base.errors import Interrupted

    options = {"environment": world(PATIENT), "max_length": 256, "max_steps": 3}
    with pytest.raises(Interrupted):
        agent.train(job(answering_base, tmp_path, rows(), **options), Listener(stop_at=1))
    assert checkpoints.newest_complete(tmp_path / "run") == tmp_path / "run" / "checkpoint-1"
    listener = Listener()
    assert agent.train(job(answering_base, tmp_path, rows(), resume=True, **options), listener).steps == 3
    assert {episode["step"] for episode in episodes(listener)} == {1, 2}
