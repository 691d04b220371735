"""What the version in use answers under its instruction, to be imitated without it: context distillation (Askell et al.,
2021, arXiv 2112.00861). The questions are those of the run's rows. Of a few sampled answers to each the one is learned
that a judge of people's ratings likes best, or with too few ratings the first; one that is broken never is.

A version that was trained and is told something answers with its own weights, so what it has learned is imitated too."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import torch

from rl.base.errors import NotEnoughData
from rl.base.files import replacing
from rl.base.manner import Manner
from rl.base.records import Report
from rl.config.training_job import TrainingJob
from rl.data_formatter import read_training_rows
from rl.data_formatter.degeneration import is_broken, rank
from rl.judge.features import Reader, without
from rl.judge.head import Head, fit
from rl.judge.labels import Answers, opinions_of, sample_rows
from rl.judge.raters import weigh_opinions
from rl.lm import loading
from rl.training.judged_rows import LEAST_OPINIONS, Row, Sampler, of_each_prompt

FILE: Final = "baked-rows.jsonl"
STAGE: Final = "answering under the instruction"
ANSWERS: Final = 4
"""To each question."""


def with_baked_rows(job: TrainingJob, report: Report) -> TrainingJob:
    """The job with these rows, in a file beside its checkpoints: a resumed run goes on with the same ones. Raises
    NotEnoughData where nothing was answered, and what loading the models raises."""
    file = job.output_dir / FILE
    if not (job.resume and file.exists()):
        rows = _bake(job, report)
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file, "w") as target:
            target.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    # the answers that people accepted are none of these
    return replace(job, train_rows=file, heldout_rows=None, kind="free")


def _bake(job: TrainingJob, report: Report) -> list[dict[str, Any]]:
    config = job.config
    reader = Reader(job.base_model, max_length=int(config.max_length), report=report, precision=config.precision)
    rated, head = _learn_judge(job, reader, report)
    report("stage", {"name": STAGE})
    rows = {row["prompt_key"]: row for row in of_each_prompt(job)}
    manner = Manner(instruction=config.instruction, instruction_place=config.instruction_place)
    asked = [{**row, "prompt": manner.tell(row["prompt"])} for row in rows.values()]
    torch.manual_seed(int(config.seed))
    with loading.with_weights(reader.model, job.teacher) as teacher:
        sampler = Sampler(reader, ANSWERS, int(config.max_length), report, teacher)
        answers = [(rows[row["prompt_key"]], texts) for row, texts in sampler.ask(asked, rated)]
    baked = list(_choose(answers, reader, head, report))
    judge = "the best by a judge of people's ratings" if head else "without a judge, as there are few ratings"
    report("log", {"text": f"{len(baked)} answers under the instruction to imitate without it, {judge}"})
    if not baked:
        raise NotEnoughData("no answer under the instruction is whole and without a loop: try another instruction")
    return baked


def _learn_judge(job: TrainingJob, reader: Reader, report: Report) -> tuple[list[str], Head | None]:
    """With the answers that people have rated; None where there are too few to learn from."""
    answers = Answers()
    opinions = opinions_of(sample_rows(read_training_rows(job.train_rows, "mpo")), answers)
    rated = [text for _, text in answers.conversations]
    if len(opinions) < LEAST_OPINIONS:
        return rated, None
    features = reader.features(answers.conversations, report)
    return rated, fit(features, weigh_opinions(opinions, {}))


def _choose(
    answers: Sequence[tuple[Row, list[str]]], reader: Reader, head: Head | None, report: Report
) -> Iterator[dict[str, Any]]:
    for row, texts in answers:
        if not (whole := [text for text in texts if not is_broken(text)]):
            continue
        ratings = [0.0] * len(whole)
        if head:
            conversations = [(row["prompt"], text) for text in whole]
            ratings = head.ratings(reader.features(conversations, without(report, "stage", "step"))).tolist()
        kept = {name: row[name] for name in ("prompt", "prompt_key", "split_key", "tools") if name in row}
        best = whole[rank(whole, ratings)[0]]
        yield {**kept, "chosen": [{"role": "assistant", "content": best}], "rejected": None, "weight": 1.0}
