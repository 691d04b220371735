"""What TRL is told of the episodes of the tiny model of ``answering``, and what it makes of them."""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean, mean, stdev
from typing import Any

import pytest

from rl.base.errors import TrainingFailed
from rl.lm.loading import load_tokenizer
from rl.training.agent import train as agent
from rl.training.grpo import Trainer
from tests.training import worlds
from tests.training.agents import Run, episodes, job, metrics, task, tasks, whole, world
from tests.training.conftest import Listener

pytestmark = pytest.mark.learn


@pytest.fixture(scope="module")
def uninterrupted_run(answering_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return whole(answering_base, tmp_path_factory.mktemp("whole"))


def test_every_step_plays_whole_groups_and_tells_its_episodes(uninterrupted_run: Run):
    result, listener = uninterrupted_run
    assert result.steps == 6
    assert {"reward", "reward_std", "kl", "completion_length", "success", "turns"} <= result.metrics.keys()
    assert "2 prompts with 4 answers each a step, 8 answers a forward pass" in listener.log
    all_episodes = episodes(listener)
    assert len(all_episodes) == 48
    for step in range(6):
        of_step = [episode for episode in all_episodes if episode["step"] == step]
        groups = [[episode["task_id"] for episode in of_step[start : start + 4]] for start in (0, 4)]
        assert [len(set(group)) for group in groups] == [1, 1]
        assert [episode["sample"] for episode in of_step] == [0, 1, 2, 3] * 2
        assert metrics(listener)[step + 1]["reward"] == pytest.approx(fmean(episode["reward"] for episode in of_step))
    assert {episode["task_id"] for episode in all_episodes} == {f"t{number}" for number in range(12)}
    assert {len(episode["turns"]) for episode in all_episodes} == {2}
    assert {episode["environment"] for episode in all_episodes} == {"tests.training.worlds:Patient"}


def test_held_out_tasks_are_the_same_in_the_same_order_before_in_between_and_at_the_end(uninterrupted_run: Run):
    listener = uninterrupted_run[1]
    all_episodes = episodes(listener, "eval")
    assert [(episode["step"], episode["task_id"]) for episode in all_episodes] == [
        (step, f"t{number}") for step in (0, 4, 6) for number in (20, 21, 22)
    ]
    measured = {
        step: step_metrics["heldout_success"]
        for step, step_metrics in metrics(listener).items()
        if "heldout_success" in step_metrics
    }
    assert list(measured) == [0, 4, 6]
    for step, share in measured.items():
        assert share == pytest.approx(fmean(episode["success"] for episode in all_episodes if episode["step"] == step))


def test_without_held_out_tasks_nothing_is_measured(answering_base: Path, tmp_path: Path):
    listener = Listener()
    agent.train(job(answering_base, tmp_path, eval_interval=1, max_steps=1), listener)
    assert episodes(listener, "eval") == []
    assert "heldout_success" not in metrics(listener)[1]


# --- what the loss is on -----------------------------------------------------------------------------------------------


class Probe:
    """What the trainer makes of the episodes of the only step, and the losses of variations of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inputs: dict[str, Any] = {}
        """In the order of the episodes."""
        self.losses: dict[str, float] = {}
        score, compute = Trainer._generate_and_score_completions, Trainer._compute_loss

        def score_and_keep(trainer: Trainer, rows: list[Any]) -> dict[str, Any]:
            self.inputs = score(trainer, rows)
            return dict(self.inputs)

        def compute_variations(trainer: Trainer, model: Any, inputs: dict[str, Any]) -> Any:
            """TRL shuffles the episodes between the two."""
            for name, changed in self._variations(inputs).items():
                self.losses[name] = float(compute(trainer, model, {**inputs, **changed}).detach())
            return compute(trainer, model, inputs)

        monkeypatch.setattr(Trainer, "_generate_and_score_completions", score_and_keep)
        monkeypatch.setattr(Trainer, "_compute_loss", compute_variations)

    def _variations(self, inputs: dict[str, Any]) -> dict[str, dict[str, Any]]:
        mask, reference = inputs["tool_mask"], inputs["ref_per_token_logps"]
        return {
            "as it is": {},
            "other observations were likelier": (heard := {"ref_per_token_logps": reference + 2.0 * (1 - mask)}),
            "and the observations count too": {**heard, "tool_mask": mask * 0 + 1},
            "other words were likelier": {"ref_per_token_logps": reference + 2.0 * mask},
        }


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Probe:
    return Probe(monkeypatch)


def test_the_loss_is_on_what_the_model_said_and_not_on_the_observations(
    answering_base: Path, tmp_path: Path, probe: Probe
):
    listener = Listener()
    agent.train(job(answering_base, tmp_path, max_steps=1, lora_dropout=0.0, seed=1), listener)
    tokenizer = load_tokenizer(str(answering_base))
    inputs = probe.inputs
    for row, episode in enumerate(episodes(listener)):
        there = inputs["completion_mask"][row].bool()
        own = inputs["tool_mask"][row].bool()
        own_text = tokenizer.decode(inputs["completion_ids"][row][there & own], skip_special_tokens=True)
        heard = tokenizer.decode(inputs["completion_ids"][row][there & ~own], skip_special_tokens=False)
        assert own_text == "".join(turn["text"] for turn in episode["turns"])
        assert f"<tool_response>\n{episode['turns'][0]['observation']}\n</tool_response>" in heard
        assert int((there & own).sum()) == sum(turn["tokens"] for turn in episode["turns"])
    losses = probe.losses
    assert losses["other observations were likelier"] == pytest.approx(losses["as it is"], abs=1e-6)
    assert losses["other words were likelier"] != pytest.approx(losses["as it is"], abs=1e-2)
    assert losses["and the observations count too"] != pytest.approx(losses["as it is"], abs=1e-2)


def test_an_advantage_is_among_the_episodes_of_the_same_task(answering_base: Path, tmp_path: Path, probe: Probe):
    listener = Listener()
    agent.train(job(answering_base, tmp_path, max_steps=1, seed=2), listener)
    rewards = [episode["reward"] for episode in episodes(listener)]
    groups = [rewards[:4], rewards[4:]]
    assert len(set(map(mean, groups))) == 2, "else it could be among all"
    expected = [(reward - mean(group)) / (stdev(group) + 1e-4) for group in groups for reward in group]
    assert probe.inputs["advantages"].tolist() == pytest.approx(expected, abs=1e-4)


# --- worlds that break -------------------------------------------------------------------------------------------------


@pytest.fixture
def fragile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    monkeypatch.setattr(worlds.Fragile, "judged", 0)
    return lambda **options: world("Fragile", **options)


def test_an_episode_whose_world_broke_has_no_influence(
    answering_base: Path, tmp_path: Path, probe: Probe, fragile: Callable[..., dict[str, Any]]
):
    listener = Listener()
    agent.train(job(answering_base, tmp_path, max_steps=1, environment=fragile(breaks=5), seed=2), listener)
    rewards = [episode["reward"] for episode in episodes(listener)]
    assert rewards[:5] == [None] * 5
    whole = rewards[5:]
    assert None not in whole
    expected = [0.0] * 5 + [(reward - mean(whole)) / (stdev(whole) + 1e-4) for reward in whole]
    assert probe.inputs["advantages"].tolist() == pytest.approx(expected, abs=1e-4)
    mask = probe.inputs["tool_mask"] * probe.inputs["completion_mask"]
    assert mask[:5].sum() == 0
    tokens = sum(turn["tokens"] for episode in episodes(listener)[5:] for turn in episode["turns"])
    assert probe.inputs["num_items_in_batch"] == mask.sum() == tokens
    assert metrics(listener)[1]["success"] == pytest.approx(fmean(whole))


def test_a_task_that_cannot_begin_and_a_step_of_broken_worlds_are_survived(
    answering_base: Path, tmp_path: Path, fragile: Callable[..., dict[str, Any]]
):
    listener = Listener()
    rows = [*tasks(11), task(11, broken=True)]
    result = agent.train(job(answering_base, tmp_path, rows, environment=fragile(breaks=16)), listener)
    assert result.steps == 6
    all_episodes = episodes(listener)
    assert [episode["reward"] is None for episode in all_episodes[:16]] == [True] * 16
    never = [episode for episode in all_episodes if episode["task_id"] == "t11"]
    assert [(episode["reward"], episode["turns"]) for episode in never] == [(None, ())] * 4
    assert "broke when it began: ConnectionError: nobody is there" in never[0]["reason"]
    assert ["reward" in step_metrics for step_metrics in metrics(listener).values()] == [
        False,
        False,
        True,
        True,
        True,
        True,
    ]
    assert metrics(listener)[1]["loss"] == metrics(listener)[1]["grad_norm"] == 0


def test_three_steps_of_nothing_but_broken_worlds_end_the_training_with_the_reason(
    answering_base: Path, tmp_path: Path, fragile: Callable[..., dict[str, Any]]
):
    listener = Listener()
    message = "no episode of the last 3 steps could be played; the last one: .*ConnectionError: nobody judges"
    with pytest.raises(TrainingFailed, match=message):
        agent.train(job(answering_base, tmp_path, environment=fragile(breaks=1000)), listener)
    assert len(episodes(listener)) == 24


def test_held_out_tasks_whose_world_breaks_are_not_counted(
    answering_base: Path, tmp_path: Path, fragile: Callable[..., dict[str, Any]]
):
    listener = Listener()
    rows = [task(20), task(21, broken=True)]
    made = job(
        answering_base, tmp_path, None, rows, environment=fragile(breaks_at="Thank"), eval_interval=1, max_steps=1
    )
    agent.train(made, listener)
    assert [episode["reward"] for episode in episodes(listener, "eval")] == [None] * 4, (
        "of itself it would rather thank"
    )
    assert [step_metrics for step_metrics in metrics(listener).values() if "heldout_success" in step_metrics] == []


def test_a_tool_that_kills_its_worker_does_not_stop_the_training(answering_base: Path, tmp_path: Path):
    listener = Listener()
    rows = [task(0), task(1, crashes=True)]
    more = {"async_rollout_workers": 2, "max_steps": 2, "max_length": 320}
    made = job(answering_base, tmp_path, rows, environment=world("Crashing"), **more)
    assert agent.train(made, listener).steps == 2
    reasons = {episode["reason"] for episode in episodes(listener) if episode["reward"] is None}
    assert reasons == {"the worker that ran it died (signal 9)"}
