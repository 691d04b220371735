"""What every training does before its first step: where to start from, and the rows as token ids on disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from datasets import Dataset, Features, List, Value, disable_progress_bars
from datasets.arrow_writer import ArrowWriter
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rl.data_formatter import read_training_rows
from rl.errors import NotEnoughData, TrainingFailed
from rl.records import Report, TrainingJob
from rl.training import checkpoints, loading, processes
from rl.training.encoding import PAIR, SINGLE, EncodedRow, LengthCount, count_rows, encode
from rl.training.log_probs import use_compact_head
from rl.training.resources import resource_advice

DROPPED_LIMIT = 0.2
"""Share of the rows that may be left out because their prompt is too long."""
ANSWERS = {"dpo": PAIR, "reward_model": PAIR, "kto": SINGLE}
"""Method to the keys of a row's answers."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a training starts from. The model is loaded last: rows that are no good are refused before it."""

    job: TrainingJob
    report: Report
    scratch: Path
    checkpoint: Path | None
    """To go on from."""
    tokenizer: PreTrainedTokenizerBase
    most_tokens: int
    """Of prompt and answer."""

    def path(self, name: str) -> Path:
        """In the scratch folder, of this process alone."""
        return self.scratch / f"{processes.rank()}-{name}"

    def model(self, load: Callable[[str, str, str], PreTrainedModel] | None = None) -> PreTrainedModel:
        """``load``: instead of ``load_base``."""
        self.report("stage", {"name": "loading the base model"})
        return (load or loading.load_base)(
            self.job.base_model, self.job.config.precision, self.job.config.quantize_base
        )


@contextmanager
def prepared(job: TrainingJob, report: Report) -> Iterator[Start]:
    loading.quiet()
    loading.leave_a_core_free()
    disable_progress_bars()
    use_compact_head()
    processes.join(cpu=loading.device().type == "cpu")
    checkpoint = starting_point(job)
    with scratch_folder(job.output_dir) as scratch, resource_advice():
        report("stage", {"name": "preparing the rows"})
        tokenizer = loading.load_tokenizer(job.base_model)
        context = loading.context_length(loading.read_config(job.base_model, TrainingFailed))
        yield Start(job, report, scratch, checkpoint, tokenizer, min(job.config.max_length, context))


@contextmanager
def scratch_folder(output_dir: Path) -> Iterator[Path]:
    """An empty folder for whatever is unfinished, gone afterwards; one left by a killed process is emptied."""
    folder = output_dir / ".unfinished"
    if processes.is_first():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    processes.wait()
    try:
        yield folder
        processes.wait()
    finally:
        if processes.is_first():
            shutil.rmtree(folder)


def starting_point(job: TrainingJob) -> Path | None:
    """The checkpoint to resume from. Of a fresh start's older checkpoints none is kept: a later resume would mix runs."""
    if processes.is_first():
        if job.resume:
            checkpoints.remove_incomplete(job.output_dir)
        else:
            checkpoints.remove_old(job.output_dir, keep=0)
    processes.wait()
    return checkpoints.newest_complete(job.output_dir)


def encoded_rows(start: Start, method: str) -> tuple[Dataset, LengthCount]:
    """The rows as memory-mapped token ids, and what was too long of them."""
    path, source, max_length = start.path("rows.arrow"), start.job.train_rows, start.most_tokens
    lengths = LengthCount()
    answers = ANSWERS[method]
    rows = read_training_rows(source, method)
    encoded = encode(start.tokenizer, rows, count_rows(source), start.report, answers)
    columns = {f"{name}_ids": List(Value("int32")) for name in ("prompt", *answers)}
    if method == "kto":
        columns["label"] = Value("bool")
    write_arrow((lengths.fit(row, max_length) for row in encoded), path, Features(columns))
    check_lengths(lengths, max_length, source, start.report)
    return Dataset.from_file(str(path)), lengths


def write_arrow(rows: Iterator[EncodedRow | None], path: Path, columns: Features) -> None:
    with ArrowWriter(path=str(path), features=columns) as writer:
        for row in rows:
            if row is not None:
                writer.write(row)
        writer.finalize()


def check_lengths(lengths: LengthCount, max_length: int, path: Path, report: Report) -> None:
    if lengths.rows == 0:
        raise NotEnoughData(f"{path} has no rows to train on")
    too_long = (
        f"{lengths.dropped} of {lengths.rows} prompts fill max_length {max_length} alone (the longest has "
        f"{lengths.longest_prompt} tokens)"
    )
    if lengths.dropped > DROPPED_LIMIT * lengths.rows:
        raise NotEnoughData(f"{too_long}; with max_length {lengths.longest_row} every row would fit")
    if lengths.dropped:
        report("log", {"text": f"{too_long}; they are left out"})
    if lengths.cut:
        report(
            "log", {"text": f"{lengths.cut} of {lengths.rows} rows have an answer that is cut at {max_length} tokens"}
        )
