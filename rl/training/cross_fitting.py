"""Answers to each tested prompt by an adapter that has not learned from it, of a run that learns from all.

The tested prompts are dealt into parts. For each part an adapter is trained as the run's own will be, on all rows but
these, and answers the part's prompts. The run's own adapter then learns from all rows, and what the others answered tells
how good it is (a little less than it is: each of them had fewer rows).

On the way a few prompts of the part are asked too (held_out_curve.py).

The answers of each part are kept in ``output_dir/unseen.jsonl``: a resumed run does not make them again.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from peft import PeftModel
from transformers import PreTrainedModel

from rl.base.files import replacing
from rl.base.records import Choosing, GeneratedAnswer, Report, silent
from rl.data_formatter import read_training_rows
from rl.data_formatter.answer_kinds import AnswerKind, Kind, normalise
from rl.data_formatter.jsonl import UNSEEN, read_unseen, unseen_line
from rl.data_formatter.opinions import stable_hash
from rl.lm.answer_room import room_for_an_answer
from rl.lm.choosing import choose_for_rows
from rl.lm.encoding import answer_text, encode
from rl.lm.generating import Ids, likeliest
from rl.lm.lengths import EncodedRow, LengthCount
from rl.lm.loading import device
from rl.lm.log_probs import TOKENS_PER_BATCH, batches
from rl.training import fitting
from rl.training.balancing import repeat_rare
from rl.training.held_out_curve import MOST_ASKED, Asking, Curve
from rl.training.imitating import good_rows, make_trainer, steady_schedule
from rl.training.preparing import Start

Row = Mapping[str, Any]
Answers = dict[str, GeneratedAnswer]
"""By the key of the prompt."""
_SLACK: Final = 4
"""Tokens, such as a full stop and quotation marks, by which a right answer may be longer than what was accepted."""


@dataclass(frozen=True, slots=True)
class Part:
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

    def of(self, keys: Collection[str], *, without: bool = False) -> Part:
        """The rows of these prompts, or of all others."""
        both = [
            pair for pair in zip(self.rows, self.encoded, strict=True) if (pair[0]["prompt_key"] in keys) != without
        ]
        return Part([row for row, _ in both], [ids for _, ids in both])

    def count_right(self, kind: str, answers: Answers) -> int:
        accepted = defaultdict(list)
        for row in self.rows:
            accepted[row["prompt_key"]].append(str(row["chosen"][-1].get("content") or ""))
        is_right = AnswerKind(cast("Kind", kind), "").is_right
        return sum(is_right(answers[key].text, texts) for key, texts in accepted.items())


def answer_unseen(start: Start, model: PreTrainedModel) -> tuple[PreTrainedModel, Curve]:
    """Leaves the answers in the file, and returns the model as it was. Raises Interrupted between two steps when the report
    does."""
    job, rows = start.job, _rows_that_fit(start)
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


def _rows_that_fit(start: Start) -> Part:
    rows = [row for row in read_training_rows(start.job.train_rows, "sft") if row["chosen"]]
    encoded, lengths = encode(start.tokenizer, rows, len(rows), silent, ("chosen",)), LengthCount()
    both = [
        (row, fitted) for row, ids in zip(rows, encoded, strict=True) if (fitted := lengths.fit(ids, start.most_tokens))
    ]
    return Part([row for row, _ in both], [ids for _, ids in both])


def deal(keys: Iterable[str], folds: int, accepted: Mapping[str, str]) -> dict[str, int]:
    """A part for each prompt, all of about one size; all its rows are in it. Prompts with the same accepted answer are
    spread over the parts: of a class with two rows one is left to learn from."""
    order = sorted(set(keys), key=lambda key: (normalise(accepted.get(key, "")), stable_hash(key)))
    return {key: number % folds for number, key in enumerate(order)}


def _train_fold(
    start: Start, model: PreTrainedModel, others: Part, asked: Part, stage: str
) -> tuple[PeftModel, Counter[float]]:
    """The adapter, and on the way how many of the prompts that are asked it answers rightly."""
    good = ((row["prompt_ids"], row["chosen_ids"]) for row in others.encoded if row["chosen_ids"])
    rows, config = repeat_rare(start, good_rows(start, good, f"{stage.replace(' ', '-')}.arrow")), start.job.config
    trainer = make_trainer(start, model, rows, config, save_strategy="no", **steady_schedule(config, len(rows)))
    adapted: PeftModel = trainer.accelerator.unwrap_model(trainer.model)
    asking = Asking(lambda: asked.count_right(start.job.kind, _answer(start, adapted, asked, asked.longest + _SLACK)))
    with fitting.fast_passes(start, trainer.model):
        report = partial(_without_figures, start.report)
        fitting.fit(trainer, start.job, None, report, stage=stage, watches=[asking])
    return adapted, asking.right


def _without_figures(report: Report, event: str, values: dict[str, Any]) -> None:
    """The curves of a run are those of its own training."""
    report(event, {**values, "metrics": {}} if event == "step" else values)


def _answer(start: Start, model: PeftModel, part: Part, room: int = 0) -> Answers:
    """By prompt, each once. ``room``: tokens of an answer at most, where what is longer need not be read; 0: as many as an
    evaluation leaves."""
    most = room or room_for_an_answer(start.most_tokens, [len(row["chosen_ids"]) for row in part.encoded])
    places = list({row["prompt_key"]: number for number, row in enumerate(part.rows)}.values())
    prompts = [part.encoded[number]["prompt_ids"] for number in places]
    model.eval()
    if start.job.choosing:
        return _choose(start, start.job.choosing, model, [part.rows[number] for number in places], prompts)
    answers: Answers = {}
    for batch in batches([len(prompt) + most for prompt in prompts], TOKENS_PER_BATCH[device().type]):
        generated = likeliest(model, start.tokenizer, [prompts[number] for number in batch], most, start.job.schema)
        for number, ids in zip(batch, generated, strict=True):
            row = part.rows[places[number]]
            text = answer_text(start.tokenizer, row, ids)
            answers[row["prompt_key"]] = GeneratedAnswer(text, len(prompts[number]), len(ids))
    model.train()
    return answers


def _choose(
    start: Start, choosing: Choosing, model: PeftModel, rows: Sequence[Row], prompts: Sequence[Ids]
) -> dict[str, GeneratedAnswer]:
    """As ``_answer``, among the answers of a closed set."""
    chosen = choose_for_rows(model, start.tokenizer, rows, prompts, choosing, calibrated=False)
    model.train()
    answered = zip(rows, prompts, chosen, strict=True)
    return {row["prompt_key"]: GeneratedAnswer(text, len(asked), len(ids)) for row, asked, (text, ids) in answered}
