"""The rows of a run as a judge sees them that has learned from them: ratings by raters who say the opposite of all others
weigh less (rl/judge/raters.py), and answers of the base model that the judge ranks are further pairs (fresh_pairs.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from rl.base.files import replacing
from rl.base.records import Report
from rl.config import MPOConfig
from rl.config.training_job import TrainingJob
from rl.data_formatter import read_training_rows
from rl.judge.features import Reader, features_of
from rl.judge.head import fit
from rl.judge.labels import LEAST_RATERS, Answers, opinions_of, sample_rows, votes_of
from rl.judge.raters import DOUBTED, Trust, share_of, trust_raters, weigh_opinions
from rl.lm import processes
from rl.training.fresh_pairs import make_fresh_pairs, without_stages

FILE: Final = "judged-rows.jsonl"
STAGE: Final = "weighing the ratings"
LEAST_OPINIONS: Final = 16
"""That a judge learns from; with fewer it would be guessing."""
Row = Mapping[str, Any]


def with_judged_rows(job: TrainingJob, report: Report) -> TrainingJob:
    """The job with these rows, in a file beside its checkpoints: a resumed run goes on with the same ones. The job as it is
    where there is nothing to judge. Raises what loading the base model raises."""
    config = job.config
    assert isinstance(config, MPOConfig)  # noqa: S101  the method's own
    doubts = config.weigh_raters and _has_several_raters(job)
    if not (doubts or config.fresh_answers):
        return job
    if processes.count() > 1:
        text = "raters weigh alike, and fresh answers are left out: several processes train, and each would judge by itself"
        report("log", {"text": text})
        return job
    file = job.output_dir / FILE
    if not (job.resume and file.exists()):
        trust, pairs = _judge(job, config, doubts, report)
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file, "w") as target:
            target.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in _weigh_rows(job, trust, pairs))
    return replace(job, train_rows=file)


def _has_several_raters(job: TrainingJob) -> bool:
    raters: set[str] = set()
    for row in read_training_rows(job.train_rows, "mpo"):
        raters.update(vote.rater for vote in votes_of(row))
        if len(raters) >= LEAST_RATERS:
            return True
    return False


def _judge(job: TrainingJob, config: MPOConfig, doubts: bool, report: Report) -> tuple[Trust, list[dict[str, Any]]]:
    """How far the raters can be relied on, and further pairs."""
    answers = Answers()
    opinions = opinions_of(sample_rows(read_training_rows(job.train_rows, "mpo")), answers)
    if len(opinions) < LEAST_OPINIONS:
        text = f"{len(opinions)} ratings, and a judge learns from {LEAST_OPINIONS}"
        report("log", {"text": f"nothing is judged: {text}"})
        return {}, []
    reader = Reader(job.base_model, max_length=int(config.max_length), report=report, precision=config.precision)
    report("stage", {"name": STAGE})
    features = features_of(
        reader.model,
        reader.tokenizer,
        answers.conversations,
        max_length=reader.max_length,
        report=without_stages(report),
    )
    trust: Trust = trust_raters(features, opinions) if doubts else {}
    if trust:
        _report_trust(trust, report)
    if not config.fresh_answers:
        return trust, []
    head = fit(features, weigh_opinions(opinions, trust))
    rated = [text for _, text in answers.conversations]
    return trust, make_fresh_pairs(job, config, reader, head, rated, report)


def _report_trust(trust: Trust, report: Report) -> None:
    doubted = sum(weight < DOUBTED for weight in trust.values())
    text = f"ratings by {doubted} of the {len(trust)} raters contradict what the others' lead to expect"
    report("log", {"text": f"{text}, and weigh less than half" if doubted else text})


def _weigh_rows(job: TrainingJob, trust: Trust, pairs: Sequence[Row]) -> Iterator[Row]:
    for row in read_training_rows(job.train_rows, "mpo"):
        if weight := row["weight"] * share_of(votes_of(row), trust):
            yield {**row, "weight": round(weight, 4)}
    yield from pairs
