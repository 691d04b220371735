"""The rows of a run as a judge sees them that has learned from them: ratings by raters who say the opposite of all others
weigh less (rl/judge/raters.py), and answers of the base model that the judge ranks are further pairs."""

import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from rl.base.files import replacing
from rl.base.records import Report
from rl.config import MPOConfig
from rl.config.training_job import TrainingJob
from rl.data_formatter import read_training_rows
from rl.data_formatter.degeneration import is_broken, rank
from rl.data_formatter.labelled import LEAST_WEIGHT
from rl.data_formatter.opinions import stable_hash
from rl.judge.features import Reader, without
from rl.judge.head import Head, fit, sigmoid
from rl.judge.labels import LEAST_RATERS, Answers, opinions_of, sample_rows, votes_of
from rl.judge.raters import DOUBTED, Trust, share_of, trust_raters, weigh_opinions
from rl.lm import processes
from rl.lm.encoding import answer_text, calls_tools, encode
from rl.lm.generating import Ids, sample
from rl.lm.lengths import cut_whole

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
    rows = read_training_rows(job.train_rows, "mpo") if config.weigh_raters else ()
    doubts = len({vote.rater for row in rows for vote in votes_of(row)}) >= LEAST_RATERS
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
    features = reader.features(answers.conversations, without(report, "stage"))
    trust: Trust = trust_raters(features, opinions) if doubts else {}
    if trust:
        doubted = sum(weight < DOUBTED for weight in trust.values())
        text = f"ratings by {doubted} of the {len(trust)} raters contradict what the others' lead to expect"
        report("log", {"text": f"{text}: they weigh less than half, or are turned round" if doubted else text})
    if config.fresh_answers and config.thinks:  # they would teach not to think
        report(
            "log", {"text": "fresh answers are left out: a judge ranks words alone, and the model is to think first"}
        )
    if not config.fresh_answers or config.thinks:
        return trust, []
    head = fit(features, weigh_opinions(opinions, trust))
    rated = [text for _, text in answers.conversations]
    return trust, make_fresh_pairs(job, config, reader, head, rated, report)


def _weigh_rows(job: TrainingJob, trust: Trust, pairs: Sequence[Row]) -> Iterator[Row]:
    for row in read_training_rows(job.train_rows, "mpo"):
        if weight := row["weight"] * share_of(votes_of(row), trust):
            sides = {"chosen": row.get("rejected"), "rejected": row.get("chosen")} if weight < 0 else {}
            yield {**row, **sides, "weight": round(abs(weight), 4)}
    yield from pairs


SAMPLING: Final = "sampling answers to learn from"
TEMPERATURE, TOP_P = 0.9, 0.95
TOGETHER: Final = 32
"""Answers of one batch."""
LONGER: Final = 1.25
"""By how much an answer may be longer than any that people have rated."""
ENDS: Final = (".", "!", "?")


def make_fresh_pairs(
    job: TrainingJob, config: MPOConfig, reader: Reader, head: Head, rated: Sequence[str], report: Report
) -> list[dict[str, Any]]:
    """Answers that the base model gives today, ranked by a judge that has learned from the run's rows.

    People's pairs are answers of earlier models. What the model would say itself is where training can move it (on-policy
    data: 2508.10530). For each prompt the best of a few answers is preferred to a middling one: the worst is often
    nonsense, and teaches little (2502.16825). Tools are offered as the rows have them; what calls one is not an answer yet,
    and is left out. A pair weighs 2 p - 1, p how likely the judge finds it, so that a judge that knows nothing moves
    nothing; LEAST_WEIGHT at least.

    ``config``: of the job. ``rated``: answers that people have rated, which say how long an answer may be. Shapes: P
    prompts, N answers to each.
    """
    report("stage", {"name": SAMPLING})
    sampler = Sampler(reader, int(config.fresh_answers), int(config.max_length), report)
    torch.manual_seed(int(config.seed))
    asked = sampler.ask(of_each_prompt(job), rated)
    pairs = [pair for row, texts in asked if (pair := _rank(row, texts, reader, head, report))]
    report("log", {"text": f"{len(pairs)} pairs of fresh answers, ranked by a judge of people's ratings"})
    return pairs


def of_each_prompt(job: TrainingJob) -> list[Row]:
    """A row of each of the prompts that are asked."""
    keys = {row["prompt_key"] for row in read_training_rows(job.train_rows, "mpo")}
    asked = heapq.nsmallest(MPOConfig.MOST_FRESH, keys, key=lambda key: stable_hash("fresh pair " + key))
    rows = dict.fromkeys(asked)
    for row in read_training_rows(job.train_rows, "mpo"):
        if rows.get(row["prompt_key"], row) is None:
            rows[row["prompt_key"]] = row
    return [row for row in rows.values() if row is not None]


@dataclass(frozen=True, slots=True)
class Sampler:
    reader: Reader
    answers: int
    max_length: int
    report: Report
    model: Any = None
    """None: the reader's, which is the base model."""

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
            sampled = sample(self.model or self.reader.model, tokenizer, repeated, most, TEMPERATURE, TOP_P)
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
    """The best beside a middling one; None where there are not two, and where the best is broken."""
    if len(texts) < 2:
        return None
    ratings = head.ratings(reader.features([(row["prompt"], text) for text in texts], without(report, "stage", "step")))
    order = rank(texts, ratings.tolist())
    better, worse = order[0], order[len(texts) // 2]
    if is_broken(texts[better]):
        return None
    p = float(sigmoid(ratings[better] - ratings[worse]))
    return {
        **{name: row[name] for name in ("prompt", "prompt_key", "split_key", "tools") if name in row},
        "chosen": [{"role": "assistant", "content": texts[better]}],
        "rejected": [{"role": "assistant", "content": texts[worse]}],
        "weight": round(max(LEAST_WEIGHT, 2 * p - 1), 4),
    }
