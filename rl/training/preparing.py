"""What every training does before its first step: where to start from, and the rows as token ids on disk."""

import shutil
import sys
import time
from collections.abc import Callable, Iterator
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
from rl.base.records import Report
from rl.config import find_rows
from rl.config.methods import Column
from rl.config.training_job import LEARNED_ROWS, TrainingJob
from rl.data_formatter import read_training_rows
from rl.hardware import REPLACED
from rl.lm import checkpoints, loading, processes
from rl.lm.encoding import count_rows, encode
from rl.lm.lengths import EncodedRow, LengthCount, TokenLimits
from rl.lm.log_probs import use_compact_head
from rl.lm.resources import resource_advice
from rl.lm.shown_rows import ShownRows

MOST_HELD_OUT: Final = 64
"""Rows that are looked at after each pass: enough to see it turn, and never more than a small part of the pass."""


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
    limits: TokenLimits
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
            tokenizer = loading.load_tokenizer(job.base_model, job.config.manner)
            context = loading.context_length(loading.read_config(job.base_model, TrainingFailed))
            limits = TokenLimits(int(job.config.max_length), context)
            yield Start(job, report, scratch, checkpoint, tokenizer, limits, began)
        processes.wait()
    finally:
        if processes.is_first():
            shutil.rmtree(scratch, ignore_errors=True)  # another process may still write, where this one has failed


def encoded_rows(start: Start, method: str) -> tuple[Dataset, LengthCount]:
    """The rows as memory-mapped token ids, and what was too long of them. The first ones are kept for people to look at."""
    lengths, shown = LengthCount(), ShownRows(start.tokenizer)

    def fitting() -> Iterator[EncodedRow | None]:
        for row, ids in _encode(start, start.job.train_rows, method):
            learned = lengths.fit(ids, start.most_tokens)
            shown.add(row, ids, learned)
            yield learned

    dataset = write_arrow(fitting(), start.path("rows.arrow"), _columns(method))
    if processes.is_first():
        write_json(start.job.output_dir / LEARNED_ROWS, shown.as_dict())
    check_lengths(lengths, start)
    return dataset, lengths


def held_out_rows(start: Start, method: str) -> Dataset:
    """The same of the first rows that were held out and fit, for a look at them after each pass; none where several
    processes train together."""
    source, lengths = start.job.heldout_rows, LengthCount()
    encoded: Iterator[tuple[dict[str, Any], EncodedRow]] = iter(())
    if source is not None and source.is_file() and processes.count() == 1:
        encoded = _encode(start, source, method, MOST_HELD_OUT)
    rows = (lengths.fit(ids, start.most_tokens) for _, ids in encoded)
    return write_arrow(rows, start.path("held-out.arrow"), _columns(method))


def _encode(
    start: Start, source: Path, method: str, most: int | None = None
) -> Iterator[tuple[dict[str, Any], EncodedRow]]:
    """Each row of a file, or of its first ``most``, with its ids, unshortened."""
    kind, (stored, rows) = find_rows(method), tee(islice(read_training_rows(source, method), most))
    kept = kind.names(Column.FLAG, Column.NUMBER, Column.SCORE)
    total = min(count_rows(source), most or sys.maxsize)
    encoded = encode(start.tokenizer, rows, total, start.report, kind.names(Column.MESSAGES), kept)
    return zip(stored, encoded, strict=True)


def _columns(method: str) -> Features:
    kind = find_rows(method)
    columns = {f"{name}_ids": List(Value("int32")) for name in ("prompt", *kind.names(Column.MESSAGES))}
    columns |= dict.fromkeys(kind.names(Column.FLAG), Value("bool"))
    columns |= dict.fromkeys(kind.names(Column.NUMBER, Column.SCORE), Value("float64"))
    return Features(columns)


def write_arrow(rows: Iterator[EncodedRow | None], path: Path, columns: Features) -> Dataset:
    """The rows that there are, memory-mapped."""
    with ArrowWriter(path=str(path), features=columns) as writer:
        for row in rows:
            if row is not None:
                writer.write({name: row.get(name) for name in columns})
        writer.finalize()
    return Dataset.from_file(str(path))


def check_lengths(lengths: LengthCount, start: Start, limits: TokenLimits | None = None, what: str = "rows") -> None:
    if lengths.rows == 0:
        raise NotEnoughData(f"{start.job.train_rows} has no {what} to train on")
    lengths.check(limits or start.limits, start.report)
    if lengths.cut:
        cut = f"{lengths.cut} of {lengths.rows} rows have an answer that is cut at {start.most_tokens} tokens"
        start.report("log", {"text": cut})
