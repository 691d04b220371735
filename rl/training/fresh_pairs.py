"""Further pairs of a run: answers that the base model gives today, ranked by a judge that has learned from the run's rows.

People's pairs are answers of earlier models. What the model would say itself is where training can move it (on-policy data:
2508.10530). For each prompt the best of a few answers is preferred to a middling one: the worst is often nonsense, and
teaches little (2502.16825). A pair weighs 2 p - 1, p the mean of how likely the judge's resampled heads find it, so that a
judge that knows nothing moves nothing; LEAST_WEIGHT at least.

Shapes: P prompts, N answers to each, R heads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch

from rl.base.files import replacing
from rl.base.records import Report
from rl.config import MPOConfig
from rl.config.training_job import TrainingJob
from rl.data_formatter import read_training_rows
from rl.data_formatter.mixed import LEAST_WEIGHT
from rl.data_formatter.opinions import stable_hash
from rl.judge.features import Reader
from rl.judge.head import Head, fit, sigmoid
from rl.judge.labels import Answers, opinions_of, sample_rows
from rl.lm import processes
from rl.lm.encoding import SINGLE, encode
from rl.lm.generating import Ids, sample
from rl.lm.sentences import cut_whole

FILE: Final = "rows-with-fresh-pairs.jsonl"
LEAST_OPINIONS: Final = 16
"""That a judge learns from; with fewer it would be guessing."""
STAGE: Final = "sampling answers to learn from"
TEMPERATURE, TOP_P = 0.9, 0.95
TOGETHER: Final = 32
"""Answers of one batch."""
LONGER: Final = 1.25
"""By how much an answer may be longer than any that people have rated."""
ENDS: Final = (".", "!", "?")
Row = Mapping[str, Any]


def with_fresh_pairs(job: TrainingJob, report: Report) -> TrainingJob:
    """The job with these pairs among its rows, in a file beside its checkpoints: a resumed run goes on with the same ones.
    Raises what loading the base model raises."""
    if not _answers(job):
        return job
    if processes.count() > 1:
        report("log", {"text": "fresh answers are left out: several processes train, and each would sample its own"})
        return job
    file = job.output_dir / FILE
    if not (job.resume and file.exists()):
        rows = list(read_training_rows(job.train_rows, "mpo"))
        pairs = _make_pairs(job, rows, report)
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file, "w") as target:
            target.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in [*rows, *pairs])
    return replace(job, train_rows=file)


def _answers(job: TrainingJob) -> int:
    """To each prompt."""
    return int(job.config.fresh_answers) if isinstance(job.config, MPOConfig) else 0


def _make_pairs(job: TrainingJob, rows: Sequence[Row], report: Report) -> list[dict[str, Any]]:
    answers = Answers()
    opinions = opinions_of(sample_rows(rows), answers)
    if len(opinions) < LEAST_OPINIONS:
        text = f"{len(opinions)} ratings, and a judge learns from {LEAST_OPINIONS}"
        report("log", {"text": f"fresh answers are left out: {text}"})
        return []
    config = job.config
    reader = Reader(job.base_model, max_length=int(config.max_length), report=report, precision=config.precision)
    report("stage", {"name": STAGE})
    head = fit(reader.features(answers.conversations, _without_stages(report)), opinions)
    sampler = _Sampler(reader, _answers(job), int(config.max_length), report)
    torch.manual_seed(int(config.seed))
    asked = sampler.ask(_of_each_prompt(rows), [text for _, text in answers.conversations])
    pairs = [pair for row, texts in asked if (pair := _rank(row, texts, reader, head, report))]
    report("log", {"text": f"{len(pairs)} pairs of fresh answers, ranked by a judge of {len(opinions)} ratings"})
    return pairs


def _of_each_prompt(rows: Sequence[Row]) -> list[Row]:
    by_prompt = {row["prompt_key"]: row for row in reversed(rows)}
    keys = sorted(by_prompt, key=lambda key: stable_hash("fresh pair " + key))
    return [by_prompt[key] for key in keys[: MPOConfig.MOST_FRESH]]


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
        singles = [{"prompt": row["prompt"], "completion": [{"role": "assistant", "content": ""}]} for row in rows]
        encoded = encode(tokenizer, singles, len(singles), self.report, SINGLE)
        prompts = [(row, list(of_row["prompt_ids"])) for row, of_row in zip(rows, encoded, strict=True)]
        fitting = [(row, ids) for row, ids in prompts if len(ids) + most <= self.max_length]
        done = 0
        at_once = max(1, TOGETHER // self.answers)
        for start in range(0, len(fitting), at_once):
            group = fitting[start : start + at_once]
            # (P of the group * N) answers
            repeated = [ids for _, ids in group for _ in range(self.answers)]
            sampled = sample(self.reader.model, tokenizer, repeated, most, TEMPERATURE, TOP_P)
            for number, (row, _) in enumerate(group):
                own = sampled[number * self.answers : (number + 1) * self.answers]
                yield row, self._texts(own, most)
            done += len(group)
            self.report("step", {"step": done, "total_steps": len(fitting), "metrics": {}})

    def _texts(self, answers: Sequence[Ids], most: int) -> list[str]:
        """What was cut off ends with its last whole sentence, and is left out where it has none."""
        texts: dict[str, None] = {}
        for ids in answers:
            text, is_whole = self.reader.tokenizer.decode(ids, skip_special_tokens=True).strip(), len(ids) < most
            text = text if is_whole else cut_whole(text)
            if text and (is_whole or text.endswith(ENDS)):
                texts[text] = None
        return list(texts)


def _rank(row: Row, texts: Sequence[str], reader: Reader, head: Head, report: Report) -> dict[str, Any] | None:
    """The best beside a middling one; None where there are not two."""
    if len(texts) < 2:
        return None
    # (R, N): the head of all labels first
    ratings = head.ratings(reader.features([(row["prompt"], text) for text in texts], _without_stages(report, "step")))
    order = ratings[0].argsort()[::-1]
    better, worse = int(order[0]), int(order[len(texts) // 2])
    p = float(np.mean(sigmoid(ratings[:, better] - ratings[:, worse])))
    return {
        **{name: row[name] for name in ("prompt", "prompt_key", "split_key") if name in row},
        "chosen": [{"role": "assistant", "content": texts[better]}],
        "rejected": [{"role": "assistant", "content": texts[worse]}],
        "weight": round(max(LEAST_WEIGHT, 2 * p - 1), 4),
    }


def _without_stages(report: Report, *others: str) -> Report:
    return lambda event, values: report(event, values) if event not in ("stage", *others) else None
