"""Answers to each tested prompt by an adapter that has not learned from it, of a run that learns from all.

The tested prompts are dealt into parts. For each part an adapter is trained as the run's own will be, on all rows but
these, and answers the part's prompts. The run's own adapter then learns from all rows, and what the others answered tells
how good it is (a little less than it is: each of them had fewer rows).

The answers of each part are kept in ``output_dir/unseen.jsonl``: a resumed run does not make them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from peft import PeftModel
from transformers import PreTrainedModel

from rl.base.files import replacing
from rl.base.records import GeneratedAnswer, silent
from rl.data_formatter import read_training_rows
from rl.data_formatter.opinions import stable_hash
from rl.data_formatter.unseen import UNSEEN, read_unseen, unseen_line
from rl.lm.answer_room import room_for_an_answer
from rl.lm.encoding import answer_text, encode
from rl.lm.generating import likeliest
from rl.lm.lengths import EncodedRow, LengthCount
from rl.lm.loading import device
from rl.lm.log_probs import TOKENS_PER_BATCH, batches
from rl.training import fitting
from rl.training.imitating import good_rows, make_trainer, steady_schedule
from rl.training.preparing import Start

Row = Mapping[str, Any]


def answer_unseen(start: Start, model: PreTrainedModel) -> PreTrainedModel:
    """Leaves the answers in the file, and returns the model as it was. Raises Interrupted between two steps when the report
    does."""
    rows, encoded = _rows_that_fit(start)
    folds, parts = start.job.folds, deal(start.job.tested, start.job.folds)
    of_rows = [parts.get(row["prompt_key"]) for row in rows]  # None: in no part, learned by all
    file = start.job.output_dir / UNSEEN
    done = read_unseen(file) if start.job.resume else {}
    for number in range(folds):
        own = [index for index, part in enumerate(of_rows) if part == number]
        if not own or all(rows[index]["prompt_key"] in done for index in own):
            continue
        others = [encoded[index] for index, part in enumerate(of_rows) if part != number]
        adapted = _train_fold(start, model, others, f"learning without part {number + 1} of {folds}")
        done |= _answer(start, adapted, [rows[index] for index in own], [encoded[index] for index in own])
        model = adapted.unload()
        with replacing(file, "w") as target:
            target.writelines(unseen_line(key, answer) for key, answer in done.items())
    return model


def _rows_that_fit(start: Start) -> tuple[list[Row], list[EncodedRow]]:
    """Those with an accepted answer, as they are stored and as token ids."""
    rows = [row for row in read_training_rows(start.job.train_rows, "sft") if row["chosen"]]
    encoded, lengths = encode(start.tokenizer, rows, len(rows), silent, ("chosen",), start.most_tokens), LengthCount()
    both = [
        (row, fitted) for row, ids in zip(rows, encoded, strict=True) if (fitted := lengths.fit(ids, start.most_tokens))
    ]
    return [row for row, _ in both], [ids for _, ids in both]


def deal(keys: Sequence[str], folds: int) -> dict[str, int]:
    """A part for each prompt, all of about one size; all its rows are in it."""
    return {key: number % folds for number, key in enumerate(sorted(set(keys), key=stable_hash))}


def _train_fold(start: Start, model: PreTrainedModel, encoded: Sequence[EncodedRow], stage: str) -> PeftModel:
    good = ((row["prompt_ids"], row["chosen_ids"]) for row in encoded if row["chosen_ids"])
    rows, config = good_rows(start, good, f"{stage.replace(' ', '-')}.arrow"), start.job.config
    trainer = make_trainer(start, model, rows, config, save_strategy="no", **steady_schedule(config, len(rows)))
    with fitting.fast_passes(start, trainer.model):
        fitting.fit(trainer, start.job, None, start.report, stage=stage)
    adapted: PeftModel = trainer.accelerator.unwrap_model(trainer.model)
    return adapted


def _answer(
    start: Start, model: PeftModel, rows: Sequence[Row], encoded: Sequence[EncodedRow]
) -> dict[str, GeneratedAnswer]:
    """By prompt, each once."""
    most = room_for_an_answer(start.most_tokens, [len(row["chosen_ids"]) for row in encoded])
    places = list({row["prompt_key"]: number for number, row in enumerate(rows)}.values())
    prompts = [encoded[number]["prompt_ids"] for number in places]
    model.eval()
    answers: dict[str, GeneratedAnswer] = {}
    for batch in batches([len(prompt) + most for prompt in prompts], TOKENS_PER_BATCH[device().type]):
        generated = likeliest(model, start.tokenizer, [prompts[number] for number in batch], most)
        for number, ids in zip(batch, generated, strict=True):
            row = rows[places[number]]
            text = answer_text(start.tokenizer, row, ids)
            answers[row["prompt_key"]] = GeneratedAnswer(text, len(prompts[number]), len(ids))
    model.train()
    return answers
