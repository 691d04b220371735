"""What every training does before its first step: where to start from, and the rows as token ids on disk."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, tee
from pathlib import Path
from typing import Any, Final

from datasets import Dataset, Features, List, Value, disable_progress_bars
from datasets.arrow_writer import ArrowWriter
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rl.base.errors import NotEnoughData, TrainingFailed
from rl.base.files import write_json
from rl.base.records import Report, silent
from rl.config import find_rows
from rl.config.methods import Column
from rl.config.training_job import LEARNED_ROWS, TrainingJob
from rl.data_formatter import read_training_rows
from rl.hardware import REPLACED
from rl.lm import checkpoints, loading, processes
from rl.lm.encoding import count_rows, encode
from rl.lm.lengths import EncodedRow, LengthCount, Limits
from rl.lm.log_probs import use_compact_head
from rl.lm.own_tokens import plain
from rl.lm.resources import resource_advice


@dataclass(frozen=True, slots=True)
class Start:
    """What a training starts from. The model is loaded last: rows that cannot be used are refused before it."""

    job: TrainingJob
    report: Report
    scratch: Path
    """An empty folder for whatever is unfinished, gone afterwards."""
    checkpoint: Path | None
    """Checkpoint to go on from."""
    tokenizer: PreTrainedTokenizerBase
    limits: Limits
    began: float = field(default_factory=time.monotonic)

    @property
    def most_tokens(self) -> int:
        """Prompt and answer together."""
        return self.limits.most_tokens

    def path(self, name: str) -> Path:
        """A path in the scratch folder that is this process's alone."""
        return self.scratch / f"{processes.rank()}-{name}"

    def model(
        self, load: Callable[[str, str, str], PreTrainedModel] | None = None, source: Path | None = None
    ) -> PreTrainedModel:
        """``load``: instead of ``load_base``; ``source``: instead of the base model. Weights that are all trained are in
        float32, whatever computes with them: bfloat16 would swallow small steps."""
        self.report("stage", {"name": "loading the base model"})
        config, base = self.job.config, str(source or self.job.base_model)
        return (load or loading.load_base)(base, "fp32" if config.full else config.precision, config.quantization)


@contextmanager
def prepare(job: TrainingJob, report: Report, began: float | None = None) -> Iterator[Start]:
    """``began``: by the monotonic clock, where something was done before."""
    began = time.monotonic() if began is None else began
    loading.quiet()
    loading.leave_a_core_free()
    disable_progress_bars()
    use_compact_head()
    if processes.count() > 1:
        processes.join(cpu=loading.device().type == "cpu")
    scratch = job.output_dir / ".unfinished"  # one left by a killed process is emptied
    if processes.is_first():
        # of a fresh start's older checkpoints none is kept: a later resume would mix runs
        if job.resume:
            checkpoints.remove_incomplete(job.output_dir)
        else:
            checkpoints.remove_old(job.output_dir, keep=0)
            checkpoints.remove_states(job.output_dir)
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
    processes.wait()
    checkpoint = checkpoints.newest_complete(job.output_dir)
    try:
        with resource_advice():
            report("stage", {"name": "preparing the rows"})
            if loading.replaces_bf16(job.config.precision):
                report("log", {"text": f"computes in {REPLACED}"})
            tokenizer = loading.load_tokenizer(job.base_model, job.config.thinks)
            context = loading.context_length(loading.read_config(job.base_model, TrainingFailed))
            limits = Limits(int(job.config.max_length), context)
            yield Start(job, report, scratch, checkpoint, tokenizer, limits, began)
        processes.wait()
    finally:
        if processes.is_first():
            shutil.rmtree(scratch, ignore_errors=True)  # another process may still write, where this one has failed


def encoded_rows(start: Start, method: str) -> tuple[Dataset, LengthCount]:
    """The rows as memory-mapped token ids, and what was too long of them. The first ones are kept for people to look at."""
    path, source, max_length = start.path("rows.arrow"), start.job.train_rows, start.most_tokens
    lengths = LengthCount()
    kind, (stored, rows) = find_rows(method), tee(read_training_rows(source, method))
    flags, numbers = kind.names(Column.FLAG), kind.names(Column.NUMBER, Column.SCORE)
    answers = kind.names(Column.MESSAGES)
    encoded = encode(start.tokenizer, rows, count_rows(source), start.report, answers, (*flags, *numbers))
    columns = {f"{name}_ids": List(Value("int32")) for name in ("prompt", *answers)}
    columns |= dict.fromkeys(flags, Value("bool"))
    columns |= dict.fromkeys(numbers, Value("float64"))
    shown = ShownRows(start.tokenizer)

    def fitting() -> Iterator[EncodedRow | None]:
        for row, ids in zip(stored, encoded, strict=True):
            learned = lengths.fit(ids, max_length)
            shown.add(row, ids, learned)
            yield learned

    dataset = write_arrow(fitting(), path, Features(columns))
    if processes.is_first():
        write_json(start.job.output_dir / LEARNED_ROWS, shown.as_dict())
    check_lengths(lengths, start)
    return dataset, lengths


def write_arrow(rows: Iterator[EncodedRow | None], path: Path, columns: Features) -> Dataset:
    """The rows that there are, memory-mapped."""
    with ArrowWriter(path=str(path), features=columns) as writer:
        for row in rows:
            if row is not None:
                writer.write({name: row.get(name) for name in columns})
        writer.finalize()
    return Dataset.from_file(str(path))


def check_lengths(lengths: LengthCount, start: Start, limits: Limits | None = None, what: str = "rows") -> None:
    if lengths.rows == 0:
        raise NotEnoughData(f"{start.job.train_rows} has no {what} to train on")
    lengths.check(limits or start.limits, start.report)
    if lengths.cut:
        cut = f"{lengths.cut} of {lengths.rows} rows have an answer that is cut at {start.most_tokens} tokens"
        start.report("log", {"text": cut})


MOST_SHOWN: Final = 40
"""Rows that a run keeps."""
MOST_LEFT_OUT: Final = 20
MOST_PROMPT: Final = 4_000
"""Characters of a prompt that are shown, the last ones."""
MOST_TOKENS: Final = 500
"""Tokens of an answer that are shown, the first ones."""
_UNFINISHED: Final = "\ufffd"
_MOST_IN_A_LETTER: Final = 4
"""Tokens that may be one letter together."""
_KEPT: Final = (
    "weight",
    "label",
    "label_source",
    "score",
    "score_source",
    "reward",
    "rewards",
    "feedback",
    "prompt_key",
)


class ShownRows:
    """The first rows that go by."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, most: int = MOST_SHOWN) -> None:
        self._tokenizer, self._most = tokenizer, most
        self._rows: list[dict[str, Any]] = []
        self._left_out: list[dict[str, Any]] = []

    def add(self, row: Mapping[str, Any], ids: EncodedRow, learned: EncodedRow | None) -> None:
        """``row``: as it is stored; ``ids``: its tokens; ``learned``: those that fit, None where it is left out."""
        if learned is None and len(self._left_out) < MOST_LEFT_OUT:
            reason = ids.get("refused") or f"its prompt has {len(ids['prompt_ids'])} tokens, too many"
            question = str(row["prompt"][-1]["content"])[-MOST_PROMPT:]
            self._left_out.append({"reason": reason, "question": question})
        elif learned is not None and len(self._rows) < self._most:
            self._rows.append(self._describe(row, ids, learned))

    def as_dict(self) -> dict[str, Any]:
        return {"rows": self._rows, "left_out": self._left_out}

    def _describe(self, row: Mapping[str, Any], ids: EncodedRow, learned: EncodedRow) -> dict[str, Any]:
        prompt = self._tokenizer.decode(learned["prompt_ids"])
        names = [name for name in learned if name.endswith("_ids") and name != "prompt_ids" and learned[name]]
        answers = [
            {
                "name": name.removesuffix("_ids"),
                "tokens": len(learned[name]),
                "is_cut": len(learned[name]) < len(ids[name]),
                "pieces": list(self._pieces(learned[name][:MOST_TOKENS])),
            }
            for name in names
        ]
        return {
            "prompt": prompt[-MOST_PROMPT:],
            "prompt_tokens": len(learned["prompt_ids"]),
            "answers": answers,
            **{name: row[name] for name in _KEPT if name in row},
        }

    def _pieces(self, ids: Sequence[int]) -> Iterator[tuple[str, bool]]:
        """Texts of one token each, or of those that make a letter together, and whether they are learned."""
        readable, begun, before = plain(ids), 0, ""
        for end in range(1, len(ids) + 1):
            text = self._tokenizer.decode(readable[:end])
            is_whole = not text.endswith(_UNFINISHED) or end - begun == _MOST_IN_A_LETTER or end == len(ids)
            if is_whole or (ids[end] >= 0) != (ids[begun] >= 0):
                yield text[len(before) :], ids[begun] >= 0
                begun, before = end, text


def show_rows(
    tokenizer: PreTrainedTokenizerBase, rows: Iterable[Mapping[str, Any]], method: str, count: int
) -> dict[str, Any]:
    """The first ``count`` rows of a method as ``ShownRows`` keeps them, before there is a run: nothing is too long yet."""
    chosen, shown = list(islice(rows, count)), ShownRows(tokenizer, count)
    answers = find_rows(method).names(Column.MESSAGES)
    for row, ids in zip(chosen, encode(tokenizer, chosen, len(chosen), silent, answers), strict=True):
        shown.add(row, ids, None if "refused" in ids else ids)
    return shown.as_dict()
