"""Answers to each tested prompt by an adapter that has not learned from it, of a run that learns from all.

The tested prompts are dealt into parts. For each part an adapter is trained as the run's own will be, on all rows but
these, and answers the part's prompts. The run's own adapter then learns from all rows, and what the others answered tells
how good it is (a little less than it is: each of them had fewer rows).

On the way a few prompts of the part are asked too, that the adapter does not learn from: at a quarter, a half and three
quarters of the steps, the same ones each time; the last point is that of the finished adapter, which answers all of its part
anyway. The points of all parts together are kept in the run's folder, so that a resumed run has them too, and are drawn
along the run's own training at the same share of its steps.

The answers of each part are kept in ``output_dir/unseen.jsonl``: a resumed run does not make them again.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from peft import PeftModel
from transformers import PreTrainedModel, TrainerCallback, TrainerState

from rl.base.files import replacing, write_json
from rl.base.records import GeneratedAnswer, silent
from rl.data_formatter import read_training_rows
from rl.data_formatter.answer_kinds import AnswerKind, Kind, normalise
from rl.data_formatter.jsonl import UNSEEN, read_unseen, unseen_line
from rl.data_formatter.opinions import stable_hash
from rl.lm.choosing import choose_for_rows
from rl.lm.encoding import answer_text, encode
from rl.lm.generating import likeliest
from rl.lm.lengths import EncodedRow, LengthCount, room_for_an_answer
from rl.lm.loading import device
from rl.lm.log_probs import TOKENS_PER_BATCH, batches
from rl.training import fitting
from rl.training.imitating import good_rows, make_trainer, repeat_rare, steady_schedule
from rl.training.preparing import Start

SHARES: Final = (0.25, 0.5, 0.75, 1.0)
"""Points of a training, as shares of its steps."""
MOST_ASKED: Final = 24
"""Prompts, those of all parts together: asking costs about as much as a step of training each time."""
FILE: Final = "right.json"
_WORDS: Final = {0.25: "a quarter of the steps", 0.5: "a half", 0.75: "three quarters", 1.0: "the end"}


class Curve:
    """Right answers by share of the steps, of the parts that are done."""

    def __init__(self, folder: Path, *, goes_on: bool) -> None:
        self._file = folder / FILE
        stored = json.loads(self._file.read_text(encoding="utf-8")) if goes_on and self._file.is_file() else {}
        self.asked = int(stored.get("asked", 0))
        self.right = Counter({float(share): int(number) for share, number in stored.get("right", {}).items()})

    def add(self, asked: int, right: Counter[float]) -> None:
        self.asked += asked
        self.right += right
        write_json(self._file, {"asked": self.asked, "right": {str(share): self.right[share] for share in SHARES}})

    def at_steps(self, steps: int) -> dict[int, float]:
        """Share of the answers that are right, by step of a training of so many."""
        return {step_at(share, steps): self.right[share] / self.asked for share in SHARES if self.asked}

    def describe(self) -> str:
        """For people."""
        points = ", ".join(f"{self.right[share]} at {_WORDS[share]}" for share in SHARES)
        return f"right answers to {self.asked} prompts, each by an adapter that does not learn from it: {points}"


class Asking(TrainerCallback):
    """Asks on the way; ``right`` has no point of the end."""

    def __init__(self, ask: Callable[[], int]) -> None:
        self._ask = ask
        self.right: Counter[float] = Counter()

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: object) -> None:
        due = [share for share in SHARES[:-1] if state.global_step == step_at(share, state.max_steps)]
        if due:
            self.right.update(dict.fromkeys(due, self._ask()))


def step_at(share: float, steps: int) -> int:
    return max(1, math.ceil(share * steps))


Row = Mapping[str, Any]
Answers = dict[str, GeneratedAnswer]
"""By the key of the prompt."""
_SLACK: Final = 4
"""Tokens, such as a full stop and quotation marks, by which a right answer may be longer than what was accepted."""


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Rows with an accepted answer, as they are stored and as token ids."""

    rows: Sequence[Row]
    encoded: Sequence[EncodedRow]

    @property
    def keys(self) -> list[str]:
        """Those of its prompts, in an order that has nothing to do with what they say."""
        return sorted({row["prompt_key"] for row in self.rows}, key=stable_hash)

    @property
    def longest(self) -> int:
        """Tokens of an accepted answer."""
        return max(len(row["chosen_ids"]) for row in self.encoded)

    def of(self, keys: Collection[str], *, without: bool = False) -> EncodedRows:
        """The rows of these prompts, or of all others."""
        both = [
            pair for pair in zip(self.rows, self.encoded, strict=True) if (pair[0]["prompt_key"] in keys) != without
        ]
        return EncodedRows([row for row, _ in both], [ids for _, ids in both])

    def count_right(self, kind: str, answers: Answers) -> int:
        accepted = defaultdict(list)
        for row in self.rows:
            accepted[row["prompt_key"]].append(str(row["chosen"][-1].get("content") or ""))
        is_right = AnswerKind(cast("Kind", kind), "").is_right
        return sum(is_right(answers[key].text, texts) for key, texts in accepted.items())


def answer_unseen(start: Start, model: PreTrainedModel) -> tuple[PreTrainedModel, Curve]:
    """Leaves the answers in the file, and returns the model as it was. Raises Interrupted between two steps when the report
    does."""
    job, lengths = start.job, LengthCount()
    stored = [row for row in read_training_rows(job.train_rows, "sft") if row["chosen"]]
    encoded = encode(start.tokenizer, stored, len(stored), silent, ("chosen",))
    fitted = ((row, lengths.fit(ids, start.most_tokens)) for row, ids in zip(stored, encoded, strict=True))
    both = [(row, ids) for row, ids in fitted if ids]
    rows = EncodedRows([row for row, _ in both], [ids for _, ids in both])
    accepted = {row["prompt_key"]: str(row["chosen"][-1].get("content") or "") for row in rows.rows}
    parts = deal(job.tested, job.folds, accepted)  # what is in none is learned by all
    file, curve = job.output_dir / UNSEEN, Curve(job.output_dir, goes_on=job.resume)
    done = read_unseen(file) if job.resume else {}
    for number in range(job.folds):
        keys = {key for key, part in parts.items() if part == number}
        own = rows.of(keys)
        if done.keys() >= set(own.keys):
            continue
        asked = own.of(own.keys[: math.ceil(MOST_ASKED / job.folds)])
        stage = f"learning without part {number + 1} of {job.folds}"
        adapted, right = _train_fold(start, model, rows.of(keys, without=True), asked, stage)
        answers = _answer(start, adapted, own)
        model, done = adapted.unload(), done | answers
        with replacing(file, "w") as target:
            target.writelines(unseen_line(key, answer) for key, answer in done.items())
        curve.add(len(asked.keys), right | Counter({1.0: asked.count_right(job.kind, answers)}))
    return model, curve


def deal(keys: Iterable[str], folds: int, accepted: Mapping[str, str]) -> dict[str, int]:
    """A part for each prompt, all of about one size; all its rows are in it. Prompts with the same accepted answer are
    spread over the parts: of a class with two rows one is left to learn from."""
    order = sorted(set(keys), key=lambda key: (normalise(accepted.get(key, "")), stable_hash(key)))
    return {key: number % folds for number, key in enumerate(order)}


def _train_fold(
    start: Start, model: PreTrainedModel, others: EncodedRows, asked: EncodedRows, stage: str
) -> tuple[PeftModel, Counter[float]]:
    """The adapter, and on the way how many of the prompts that are asked it answers rightly."""
    good = ((row["prompt_ids"], row["chosen_ids"]) for row in others.encoded if row["chosen_ids"])
    rows, config = repeat_rare(start, good_rows(start, good, f"{stage.replace(' ', '-')}.arrow")), start.job.config
    trainer = make_trainer(start, model, rows, config, save_strategy="no", **steady_schedule(config, len(rows)))
    adapted: PeftModel = trainer.accelerator.unwrap_model(trainer.model)
    asking = Asking(lambda: asked.count_right(start.job.kind, _answer(start, adapted, asked, asked.longest + _SLACK)))
    with fitting.fast_passes(start, trainer.model):
        # the curves of a run are those of its own training
        def report(event: str, values: dict[str, Any]) -> None:
            start.report(event, {**values, "metrics": {}} if event == "step" else values)

        fitting.fit(trainer, start.job, None, report, stage=stage, watches=[asking])
    return adapted, asking.right


def _answer(start: Start, model: PeftModel, part: EncodedRows, room: int = 0) -> Answers:
    """By prompt, each once. ``room``: tokens of an answer at most, where what is longer need not be read; 0: as many as an
    evaluation leaves."""
    most = room or room_for_an_answer(start.most_tokens, [len(row["chosen_ids"]) for row in part.encoded])
    places = list({row["prompt_key"]: number for number, row in enumerate(part.rows)}.values())
    prompts = [part.encoded[number]["prompt_ids"] for number in places]
    model.eval()
    answers: Answers = {}
    if start.job.choosing:  # among the answers of a closed set
        rows = [part.rows[number] for number in places]
        chosen = choose_for_rows(model, start.tokenizer, rows, prompts, start.job.choosing, calibrated=False)
        for row, prompt, (text, ids) in zip(rows, prompts, chosen, strict=True):
            answers[row["prompt_key"]] = GeneratedAnswer(text, len(prompt), len(ids))
        model.train()
        return answers
    for batch in batches([len(prompt) + most for prompt in prompts], TOKENS_PER_BATCH[device().type]):
        generated = likeliest(model, start.tokenizer, [prompts[number] for number in batch], most, start.job.schema)
        for number, ids in zip(batch, generated, strict=True):
            row = part.rows[places[number]]
            text = answer_text(start.tokenizer, row, ids)
            answers[row["prompt_key"]] = GeneratedAnswer(text, len(prompts[number]), len(ids))
    model.train()
    return answers
