"""The episodes that an agent learns from, step by step, and those that measure it on held-out tasks.

Sizes: N prompts as TRL hands them over, each G times in a row, G episodes a group; t tokens of an episode behind its
prompt.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from statistics import fmean
from typing import Any

import torch
from datasets import Dataset
from transformers import TrainerCallback, TrainerState
from trl import GRPOTrainer
from trl.models import unwrap_model_for_generation

from rl.base.errors import Interrupted, TrainingFailed
from rl.base.records import Report
from rl.config import AgentConfig
from rl.environments.crew import Opening
from rl.environments.episode import PlayedEpisode
from rl.lm import processes
from rl.lm.generating import likeliest
from rl.lm.packed_layers import packed_layers
from rl.training.agent.episodes import Ids, Play, Stage
from rl.training.callbacks import COMPONENT

REWARD = "reward_of_episode"
MOST_BROKEN = 3
"""Steps in a row of which no episode could be played, before the training gives up."""
TOGETHER = 32
"""Held-out episodes at once."""
HELD_OUT = "heldout_success"
"""Metric: share of the held-out tasks that were solved, of those whose world did not break."""


class Rollouts:
    """TRL's ``rollout_func``: an episode for each prompt, which is the number of a row."""

    def __init__(self, stage: Stage, rows: Dataset, config: AgentConfig, report: Report) -> None:
        """``rows``: as ``task_rows`` leaves them."""
        self._stage, self._rows, self._report = stage, rows, report
        self._size, self._environment = int(config.num_generations), str(config.environment.get("type", ""))
        self._broken, self._failed = 0, False
        self.episodes: list[int] = []
        """The episode of each conversation that was handed to TRL last."""

    def __call__(self, prompts: Sequence[str], trainer: GRPOTrainer) -> dict[str, Any]:
        # N episodes of this process, which begin at ``first`` among those of all processes
        rows = [self._rows[int(prompt)] for prompt in prompts]
        with packed_layers(trainer.model):  # for all turns
            plays = self._stage.play([json.loads(row["task"]) for row in rows], partial(_speak, trainer))
        first = trainer.accelerator.process_index * len(prompts)  # a group may lie in several processes
        step = trainer.state.global_step
        samples = [(play, number % self._size) for number, play in enumerate(plays, start=first)]
        self._tell([play.episode(self._environment, split="train", step=step, sample=of) for play, of in samples])
        end = trainer.processing_class.eos_token_id
        return self._as_trl_wants(plays, [row["prompt_ids"] for row in rows], end, trainer.args.steps_per_generation)

    def _tell(self, episodes: Sequence[PlayedEpisode]) -> None:
        """Those of all processes. Raises TrainingFailed where the world is broken for good."""
        documents = processes.gather_items([episode.as_document() for episode in episodes])
        tell(self._report, documents)
        failed = all(document["info"].get("failed") for document in documents)
        if failed and not self._failed:  # once, when the programs of all episodes of a step begin to fail
            with suppress(Interrupted):
                text = f"the commands of all {len(documents)} episodes of a step failed: {documents[-1]['reason']}"
                self._report("log", {"text": text})
        self._failed = failed
        # nothing about the model: the world of each broke, or its program did
        said_nothing = all(document["reward"] is None or document["info"].get("crashed") for document in documents)
        self._broken = self._broken + 1 if said_nothing else 0
        if self._broken >= MOST_BROKEN:
            raise TrainingFailed(
                f"no episode of the last {MOST_BROKEN} steps could be played; the last one: {documents[-1]['reason']}"
            )

    def _as_trl_wants(self, plays: Sequence[Play], prompts: Sequence[Ids], end: int, passes: int) -> dict[str, Any]:
        """Lists of N for the episodes; lists of M for their conversations, whose ids, mask and log-probabilities are (t)
        each. M is N where every episode is one conversation; otherwise a multiple of ``passes``, the same in all
        processes, by conversations without a token to learn from."""
        for play, prompt in zip(plays, prompts, strict=True):
            play.prompt_ids = play.prompt_ids or prompt
        samples = [(number, part) for number, play in enumerate(plays) for part in play.conversations or [play]]
        most = max(processes.gather_items([-(-len(samples) // passes) * passes]))
        samples += [(0, Play(0, {}, Opening(), prompts[0])) for _ in range(most - len(samples))]
        self.episodes = [number for number, _ in samples]
        for _, part in samples:
            if not part.ids:  # it broke before its first turn, and TRL needs a token
                part.say([end])
                part.own, part.log_probs = [0], [0.0]
        # with log-probabilities of the generator TRL corrects for how it differs from the model that trains
        known = all(len(part.log_probs) == len(part.ids) for _, part in samples)
        return {
            "prompt_ids": [part.prompt_ids for _, part in samples],
            "completion_ids": [part.ids for _, part in samples],
            # mask: the model's tokens; none of an episode without a reward, so that not even the KL term acts on it
            "env_mask": [
                part.own if plays[number].reward is not None else [0] * len(part.ids) for number, part in samples
            ],
            "logprobs": [part.log_probs for _, part in samples] if known else None,
            REWARD: [play.reward for play in plays],
            "solved": [float(play.success) for play in plays],
            "turns": [float(len(play.turns)) for play in plays],
        }


def _speak(trainer: GRPOTrainer, plays: Sequence[Play]) -> list[Ids]:
    turns, log_probs = trainer._generate_single_turn([play.context for play in plays], None, {}, 1)
    for play, of_play in zip(plays, log_probs or (), strict=False):
        play.log_probs += of_play
    return list(turns)


def episode_reward(
    reward_of_episode: Sequence[float | None],
    solved: Sequence[float],
    turns: Sequence[float],
    log_metric: Callable[[str, float], None],
    **others: Any,
) -> list[float | None]:
    """What the episodes earned: a reward function as TRL calls it."""
    judged = [number for number, reward in enumerate(reward_of_episode) if reward is not None]
    if judged:
        log_metric(f"{COMPONENT}success", fmean(solved[number] for number in judged))
        log_metric(f"{COMPONENT}turns", fmean(turns[number] for number in judged))
    return list(reward_of_episode)


class HeldOutTasks(TrainerCallback):
    """Before the first step, every ``eval_interval`` steps and after the last one: the same held-out tasks in the same
    order, by the likeliest tokens."""

    def __init__(
        self,
        trainer: GRPOTrainer,
        stage: Stage,
        tasks: Sequence[Mapping[str, Any]],
        config: AgentConfig,
        report: Report,
    ) -> None:
        self._trainer, self._stage, self._tasks, self._report = trainer, stage, tasks, report
        self._every, self._most = int(config.eval_interval), int(config.max_new_tokens)
        self._environment = str(config.environment.get("type", ""))

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.global_step == 0 and (metrics := self._measure(state)):
            with suppress(Interrupted):
                self._report("step", {"step": 0, "total_steps": state.max_steps, "metrics": metrics})

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.global_step % self._every == 0 or state.global_step == state.max_steps:
            for name, value in self._measure(state).items():
                self._trainer._metrics["train"][f"{COMPONENT}{name}"].append(value)  # noqa: SLF001  TRL's

    def _measure(self, state: TrainerState) -> dict[str, float]:
        """Plays in the first process, while the others wait. Empty where no task could be played."""
        solved = processes.gather_items(self._play(state.global_step) if processes.is_first() else [])
        return {HELD_OUT: fmean(solved)} if solved else {}

    def _play(self, step: int) -> list[float]:
        solved: list[float] = []
        with self._policy() as speak:
            for start in range(0, len(self._tasks), TOGETHER):
                part = self._tasks[start : start + TOGETHER]
                plays = self._stage.play(part, speak)
                where = {"split": "eval", "step": step}
                tell(self._report, [play.episode(self._environment, **where).as_document() for play in plays])
                solved += [float(play.success) for play in plays if play.reward is not None]
        return solved

    @contextmanager
    def _policy(self) -> Iterator[Callable[[Sequence[Play]], list[Ids]]]:
        trainer = self._trainer
        trainer.model.eval()
        try:
            with (
                torch.no_grad(),
                unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator) as model,
                packed_layers(model),
            ):
                yield lambda plays: likeliest(
                    model, trainer.processing_class, [play.context for play in plays], self._most
                )
        finally:
            trainer.model.train()


def tell(report: Report, episodes: Sequence[Mapping[str, Any]]) -> None:
    """Who interrupts is heard at the end of the step: a checkpoint within it would not resume to the same numbers."""
    with suppress(Interrupted):
        report("episodes", {"episodes": list(episodes)})
