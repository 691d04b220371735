"""Stored answers with their rewards, in the place of generated ones.

Rows: ``prompt``, ``completions`` (any number of answers) and ``rewards`` (one for each). Sizes: N prompts as TRL hands
them over, each G times in a row; G answers a group.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from datasets import Dataset, Features, List, Value
from trl import GRPOTrainer

from rl.base.messages import tools_of
from rl.base.records import silent
from rl.data_formatter import read_training_rows
from rl.lm.encoding import count_rows, encode
from rl.lm.lengths import LengthCount
from rl.lm.log_probs import PromptAndAnswer
from rl.lm.own_tokens import own_mask, plain
from rl.training.preparing import Start, check_lengths, write_arrow

REWARD = "stored_reward"
_COLUMNS = Features(
    {
        "prompt": Value("string"),
        "prompt_ids": List(Value("int32")),
        "answers": List(List(Value("int32"))),
        "rewards": List(Value("float64")),
    }
)
"""``prompt``: the row's number, which the trainer hands over in place of a prompt."""


def encoded_groups(start: Start) -> tuple[Dataset, LengthCount]:
    """The groups as token ids, memory-mapped, and what was too long of them."""
    target, lengths = start.path("groups.arrow"), LengthCount()
    write_arrow(_encode_groups(start, lengths), target, _COLUMNS)
    check_lengths(lengths, start)
    return Dataset.from_file(str(target)), lengths


def _encode_groups(start: Start, lengths: LengthCount) -> Iterator[dict[str, Any]]:
    path, tokenizer, most_tokens = start.job.train_rows, start.tokenizer, start.most_tokens
    row_number, total = 0, count_rows(path)
    for done, row in enumerate(read_training_rows(path, "grpo"), start=1):
        names = [f"answer{number}" for number in range(len(row["completions"]))]
        group = {**tools_of(row), "prompt": row["prompt"], **dict(zip(names, row["completions"], strict=True))}
        [ids] = encode(tokenizer, [group], 1, silent, names)
        # all answers of a row in one fit: a prompt that is too long drops the group, a long answer is cut
        if fitting := lengths.fit(ids, most_tokens):
            answers = [_up_to_its_end(fitting[f"{name}_ids"], tokenizer.eos_token_id) for name in names]
            yield {
                "prompt": str(row_number),
                "prompt_ids": fitting["prompt_ids"],
                "answers": answers,
                "rewards": row["rewards"],
            }
            row_number += 1
        start.report("step", {"step": done, "total_steps": total, "metrics": {}})


def _up_to_its_end(ids: list[int], end: int | None) -> list[int]:
    """Without what a chat template writes behind the end of the last turn: the model never gives that."""
    return ids[: len(ids) - ids[::-1].index(end)] if end in ids else ids


def best_answers(groups: Dataset) -> Iterator[PromptAndAnswer]:
    """The answer with the most reward of each group."""
    for group in iter(groups):
        yield group["prompt_ids"], group["answers"][group["rewards"].index(max(group["rewards"]))]


class StoredAnswers:
    """TRL's ``rollout_func``: for each prompt as many stored answers as a group needs.

    Of a larger group some are drawn, those of a smaller one come several times. The draw depends on seed, row and step
    alone, so that a resumed training draws the same.
    """

    def __init__(self, groups: Dataset, size: int, seed: int) -> None:
        self._groups, self._size, self._seed = groups, int(size), int(seed)

    def __call__(self, prompts: Sequence[str], trainer: GRPOTrainer) -> dict[str, Any]:
        # N prompts of this process, which begin at ``first`` among those of all processes
        first = trainer.accelerator.process_index * len(prompts)  # a group may lie on several devices
        rollouts: dict[str, Any] = {"prompt_ids": [], "completion_ids": [], "env_mask": [], "logprobs": None}
        rollouts[REWARD] = []
        for number, prompt in enumerate(prompts, start=first):
            group = self._groups[int(prompt)]
            # draw: G answers for the whole group, the same in every process; each place in the group takes one
            chosen = self._draw(len(group["answers"]), prompt, trainer.state.global_step)[number % self._size]
            rollouts["prompt_ids"].append(group["prompt_ids"])
            rollouts["completion_ids"].append(plain(group["answers"][chosen]))
            rollouts["env_mask"].append(own_mask(group["answers"][chosen]))
            rollouts[REWARD].append(group["rewards"][chosen])
        return rollouts  # N lists each; without logprobs TRL takes the policy's own, so the ratio is 1

    def _draw(self, answers: int, prompt: str, step: int) -> list[int]:
        order = random.Random(f"{self._seed} {prompt} {step}")  # noqa: S311
        return list(islice(_again_and_again(answers, order), self._size))


def _again_and_again(answers: int, order: random.Random) -> Iterator[int]:
    """All of them in any order, then all of them again: none comes twice more often than another."""
    while True:
        yield from order.sample(range(answers), answers)


def stored_rewards(stored_reward: Sequence[float], **others: Any) -> list[float]:
    """The rewards that are stored in the rows: a reward function as TRL calls it."""
    return list(stored_reward)
