"""What every training does before its first step: where to start from, and the rows as token ids on disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def prepared(
    job: TrainingJob, report: Report, load: Callable[[str, str, str], PreTrainedModel] | None = None
) -> Iterator[tuple[Path, Path | None, PreTrainedTokenizerBase, PreTrainedModel]]:
    """A scratch folder, the checkpoint to go on from, tokenizer and base model, as ``load`` makes it (``load_base``)."""
    loading.quiet()
    loading.leave_a_core_free()
    disable_progress_bars()
    use_compact_head()
    processes.join(cpu=loading.device().type == "cpu")
    checkpoint = starting_point(job)
    with scratch_folder(job.output_dir) as scratch, resource_advice():
        report("stage", {"name": "loading the base model"})
        tokenizer, model = (
            loading.load_tokenizer(job.base_model),
            (load or loading.load_base)(job.base_model, job.config.precision, job.config.quantize_base),
        )
        report("stage", {"name": "preparing the rows"})
        yield scratch, checkpoint, tokenizer, model


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


def most_tokens(job: TrainingJob, model: PreTrainedModel) -> int:
    """Of prompt and answer."""
    return min(job.config.max_length, loading.context_length(model))


def encoded_rows(
    job: TrainingJob,
    tokenizer: PreTrainedTokenizerBase,
    model: PreTrainedModel,
    path: Path,
    report: Report,
    method: str,
) -> tuple[Dataset, LengthCount]:
    """The rows as memory-mapped token ids in ``path`` (each process writes its own), and what was too long of them."""
    path = path.with_name(f"{processes.rank()}-{path.name}")
    max_length = most_tokens(job, model)
    lengths = LengthCount()
    answers = ANSWERS[method]
    rows = read_training_rows(job.train_rows, method)
    encoded = encode(tokenizer, rows, count_rows(job.train_rows), report, answers)
    columns = {f"{name}_ids": List(Value("int32")) for name in ("prompt", *answers)}
    if method == "kto":
        columns["label"] = Value("bool")
    write_arrow((lengths.fit(row, max_length) for row in encoded), path, Features(columns))
    check_lengths(lengths, max_length, job.train_rows, report)
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
        raise TrainingFailed(f"{too_long}; with max_length {lengths.longest_row} every row would fit")
    if lengths.dropped:
        report("log", {"text": f"{too_long}; they are left out"})
    if lengths.cut:
        report(
            "log", {"text": f"{lengths.cut} of {lengths.rows} rows have an answer that is cut at {max_length} tokens"}
        )
