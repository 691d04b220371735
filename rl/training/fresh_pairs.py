"""Further pairs of a run: answers that the base model gives today, ranked by a judge that has learned from the run's rows.

People's pairs are answers of earlier models. What the model would say itself is where training can move it (on-policy data:
2508.10530). For each prompt the best of a few answers is preferred to a middling one: the worst is often nonsense, and
teaches little (2502.16825). Tools are offered as the rows have them; what calls one is not an answer yet, and is left out. A
pair weighs 2 p - 1, p the mean of how likely the judge's resampled heads find it, so that a judge that knows nothing moves
nothing; LEAST_WEIGHT at least.

Shapes: P prompts, N answers to each, R heads.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from rl.base.records import Report
from rl.config import MPOConfig
from rl.config.training_job import TrainingJob
from rl.data_formatter import read_training_rows
from rl.data_formatter.labelled import LEAST_WEIGHT
from rl.data_formatter.opinions import stable_hash
from rl.judge.features import Reader
from rl.judge.head import Head, sigmoid
from rl.lm.encoding import answer_text, calls_tools, encode
from rl.lm.generating import Ids, sample
from rl.lm.sentences import cut_whole

STAGE: Final = "sampling answers to learn from"
TEMPERATURE, TOP_P = 0.9, 0.95
TOGETHER: Final = 32
"""Answers of one batch."""
LONGER: Final = 1.25
"""By how much an answer may be longer than any that people have rated."""
ENDS: Final = (".", "!", "?")
Row = Mapping[str, Any]


def make_fresh_pairs(
    job: TrainingJob, config: MPOConfig, reader: Reader, head: Head, rated: Sequence[str], report: Report
) -> list[dict[str, Any]]:
    """``config``: of the job. ``rated``: answers that people have rated, which say how long an answer may be."""
    report("stage", {"name": STAGE})
    sampler = _Sampler(reader, int(config.fresh_answers), int(config.max_length), report)
    torch.manual_seed(int(config.seed))
    asked = sampler.ask(_of_each_prompt(job), rated)
    pairs = [pair for row, texts in asked if (pair := _rank(row, texts, reader, head, report))]
    report("log", {"text": f"{len(pairs)} pairs of fresh answers, ranked by a judge of people's ratings"})
    return pairs


def _of_each_prompt(job: TrainingJob) -> list[Row]:
    """A row of each of the prompts that are asked."""
    keys = {row["prompt_key"] for row in read_training_rows(job.train_rows, "mpo")}
    asked = heapq.nsmallest(MPOConfig.MOST_FRESH, keys, key=lambda key: stable_hash("fresh pair " + key))
    rows = dict.fromkeys(asked)
    for row in read_training_rows(job.train_rows, "mpo"):
        if rows.get(row["prompt_key"], row) is None:
            rows[row["prompt_key"]] = row
    return [row for row in rows.values() if row is not None]


@dataclass(frozen=True, slots=True)
class _Sampler:
    reader: Reader
    answers: int
    max_length: int
    report: Report

    def ask(self, rows: Sequence[Row], rated: Sequence[str]) -> Iterator[tuple[Row, list[str]]]:
        """Different answers to each prompt; ``rated``: what people have rated."""
        tokenizer = self.reader.tokenizer
        longest = max(len(ids) for ids in tokenizer(list(rated), add_special_tokens=False)["input_ids"])
        most = min(round(LONGER * longest) + 1, self.max_length // 2)
        encoded = encode(tokenizer, rows, len(rows), self.report, ())
        prompts = [(row, list(of_row.get("prompt_ids", ()))) for row, of_row in zip(rows, encoded, strict=True)]
        fitting = [(row, ids) for row, ids in prompts if ids and len(ids) + most <= self.max_length]
        done = 0
        at_once = max(1, TOGETHER // self.answers)
        for start in range(0, len(fitting), at_once):
            group = fitting[start : start + at_once]
            # (P of the group * N) answers
            repeated = [ids for _, ids in group for _ in range(self.answers)]
            sampled = sample(self.reader.model, tokenizer, repeated, most, TEMPERATURE, TOP_P)
            for number, (row, _) in enumerate(group):
                own = sampled[number * self.answers : (number + 1) * self.answers]
                yield row, self._texts(row, own, most)
            done += len(group)
            self.report("step", {"step": done, "total_steps": len(fitting), "metrics": {}})

    def _texts(self, row: Row, answers: Sequence[Ids], most: int) -> list[str]:
        """What was cut off ends with its last whole sentence, and is left out where it has none."""
        texts: dict[str, None] = {}
        tokenizer = self.reader.tokenizer
        for ids in (ids for ids in answers if not calls_tools(tokenizer, row, ids)):
            text, is_whole = answer_text(tokenizer, row, ids).strip(), len(ids) < most
            text = text if is_whole else cut_whole(text)
            if text and (is_whole or text.endswith(ENDS)):
                texts[text] = None
        return list(texts)


def _rank(row: Row, texts: Sequence[str], reader: Reader, head: Head, report: Report) -> dict[str, Any] | None:
    """The best beside a middling one; None where there are not two."""
    if len(texts) < 2:
        return None
    # (R, N): the head of all labels first
    ratings = head.ratings(reader.features([(row["prompt"], text) for text in texts], without_stages(report, "step")))
    order = ratings[0].argsort()[::-1]
    better, worse = int(order[0]), int(order[len(texts) // 2])
    p = float(np.mean(sigmoid(ratings[:, better] - ratings[:, worse])))
    return {
        **{name: row[name] for name in ("prompt", "prompt_key", "split_key", "tools") if name in row},
        "chosen": [{"role": "assistant", "content": texts[better]}],
        "rejected": [{"role": "assistant", "content": texts[worse]}],
        "weight": round(max(LEAST_WEIGHT, 2 * p - 1), 4),
    }


def without_stages(report: Report, *others: str) -> Report:
    return lambda event, values: report(event, values) if event not in ("stage", *others) else None
