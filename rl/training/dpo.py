"""Direct Preference Optimization (Rafailov et al., 2023) of a LoRA adapter, by TRL's DPOTrainer.

Rows: ``prompt``, ``chosen``, ``rejected``, each a list of chat messages. Maximises the log-sigmoid of beta times the
difference between how much more likely the adapter made the chosen answer and the rejected one, against the base model.
Departs from TRL in four ways: rows are tokenised here (long ones counted, too many of them refused); the base model's
answers are scored once when there is more than one epoch; dropout is off in the base model but on in the adapter; the
language-model head runs at answer positions only. Runs on one CPU or GPU.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from datasets import Dataset, Features, List, Value, disable_progress_bars
from datasets.arrow_writer import ArrowWriter
from peft import LoraConfig
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PrinterCallback
from trl import DPOConfig, DPOTrainer
from trl.trainer.utils import disable_dropout_in_model

from rl.data_formatter import read_training_rows
from rl.errors import NotEnoughData, TrainingFailed
from rl.files import publish_directory
from rl.records import Report, TrainingJob, TrainingResult
from rl.training import checkpoints, loading
from rl.training.callbacks import Progress, PublishedCheckpoints, metrics_of
from rl.training.encoding import EncodedRow, LengthCount, count_rows, encode
from rl.training.log_probs import PromptAndAnswer, answer_log_probs, use_compact_head
from rl.training.resources import resource_advice

DROPPED_LIMIT = 0.2
"""Share of the rows that may be left out because their prompt is too long."""

_COLUMNS = Features({name: List(Value("int32")) for name in EncodedRow.__annotations__})


def train(job: TrainingJob, report: Report) -> TrainingResult:
    """Trains, or goes on from the newest checkpoint; the adapter appears whole in ``output_dir/adapter``.

    Raises Interrupted after a checkpoint when ``report`` does; TrainingFailed, NotEnoughData or BadFile otherwise.
    """
    started = time.monotonic()
    loading.quiet()
    loading.leave_a_core_free()
    disable_progress_bars()
    use_compact_head()
    checkpoint = _starting_point(job)
    with _scratch(job.output_dir) as scratch, resource_advice():
        report("stage", {"name": "loading the base model"})
        tokenizer, model = (
            loading.load_tokenizer(job.base_model),
            loading.load_base(job.base_model, job.config.precision),
        )
        report("stage", {"name": "preparing the rows"})
        rows, lengths = _prepare(job, tokenizer, model, scratch / "rows.arrow", report)
        trainer = _trainer(job, model, tokenizer, rows, scratch)
        _run(trainer, job, checkpoint, report)
        adapter = _publish_adapter(trainer, scratch / "adapter", job.output_dir / "adapter")
    return _result(trainer, adapter, lengths, time.monotonic() - started)


class Answers:
    """Prompt and answer of every row, first the chosen ones, then the rejected ones. Nothing is held in memory."""

    def __init__(self, rows: Dataset) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return 2 * len(self._rows)

    def __getitem__(self, index: int) -> PromptAndAnswer:
        side, number = divmod(index, len(self._rows))
        row = self._rows[number]
        return row["prompt_ids"], row[("chosen_ids", "rejected_ids")[side]]

    def __iter__(self) -> Iterator[PromptAndAnswer]:
        return ((row["prompt_ids"], row[side]) for side in ("chosen_ids", "rejected_ids") for row in iter(self._rows))


class _Trainer(DPOTrainer):
    """TRL's trainer for rows that are token ids already."""

    train_dataset: Dataset

    def _prepare_dataset(self, dataset: Dataset, *args: object) -> Dataset:
        return dataset

    def use_reference(self, precision: str, report: Report) -> None:
        """Scores every answer under the base model now instead of once per epoch."""
        rows = self.train_dataset
        self.model.eval()
        with self.model.disable_adapter():
            scores = answer_log_probs(self.model, Answers(rows), loading.autocast_dtype(precision), report)
        self.train_dataset = rows.add_column("ref_chosen_logps", scores[: len(rows)]).add_column(
            "ref_rejected_logps", scores[len(rows) :]
        )
        self.precompute_ref_logps = True


@contextmanager
def _scratch(output_dir: Path) -> Iterator[Path]:
    """An empty folder for whatever is unfinished, gone afterwards; one left by a killed process is emptied."""
    folder = output_dir / ".unfinished"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _run(trainer: _Trainer, job: TrainingJob, checkpoint: Path | None, report: Report) -> None:
    progress = Progress(report)
    trainer.add_callback(progress)
    trainer.add_callback(PublishedCheckpoints(job.output_dir))
    if job.config.epochs > 1:
        report("stage", {"name": "scoring under the base model"})
        trainer.use_reference(job.config.precision, report)
    report("stage", {"name": "training"})
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if progress.stopped is not None:
        raise progress.stopped


def _starting_point(job: TrainingJob) -> Path | None:
    """The checkpoint to resume from. Of a fresh start's older checkpoints none is kept: a later resume would mix runs."""
    if job.resume:
        checkpoints.remove_incomplete(job.output_dir)
        return checkpoints.newest_complete(job.output_dir)
    checkpoints.remove_old(job.output_dir, keep=0)
    return None


def _prepare(
    job: TrainingJob, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, path: Path, report: Report
) -> tuple[Dataset, LengthCount]:
    """The rows as memory-mapped token ids in ``path``, and what was too long of them."""
    max_length = min(job.config.max_length, loading.context_length(model))
    lengths = LengthCount()
    encoded = encode(tokenizer, read_training_rows(job.train_rows), count_rows(job.train_rows), report)
    fitting = (lengths.fit(row, max_length) for row in encoded)
    _write_arrow((row for row in fitting if row is not None), path)
    _check_lengths(lengths, max_length, job.train_rows, report)
    return Dataset.from_file(str(path)), lengths


def _write_arrow(rows: Iterator[EncodedRow], path: Path) -> None:
    with ArrowWriter(path=str(path), features=_COLUMNS) as writer:
        for row in rows:
            writer.write(row)
        writer.finalize()


def _check_lengths(lengths: LengthCount, max_length: int, path: Path, report: Report) -> None:
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


def _trainer(
    job: TrainingJob, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset, scratch: Path
) -> _Trainer:
    # TRL's own switch would turn off the adapter's dropout too.
    disable_dropout_in_model(model)
    config = job.config
    lora = LoraConfig(
        r=config.lora_r,
        lora_alpha=config.lora_alpha,
        lora_dropout=config.lora_dropout,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    trainer = _Trainer(
        model=model, args=_arguments(job, scratch), train_dataset=rows, processing_class=tokenizer, peft_config=lora
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _arguments(job: TrainingJob, output_dir: Path) -> DPOConfig:
    config, device = job.config, loading.device()
    arguments = DPOConfig(
        output_dir=str(output_dir),
        num_train_epochs=config.epochs,
        per_device_train_batch_size=int(config.batch_size),
        gradient_accumulation_steps=int(config.gradient_accumulation),
        learning_rate=config.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=min(config.warmup_ratio, 1 - 1e-9),  # 1 and more would count steps
        beta=config.beta,
        max_length=None,  # the rows fit already
        max_grad_norm=config.max_grad_norm,
        bf16=loading.uses_bf16(config.precision),
        activation_checkpointing=config.activation_checkpointing,
        gradient_checkpointing=config.activation_checkpointing,
        disable_dropout=False,
        use_cpu=device.type == "cpu",
        dataloader_pin_memory=device.type != "cpu",
        seed=int(config.seed),
        save_strategy="steps",
        save_steps=int(config.save_steps),
        logging_steps=1,
        logging_nan_inf_filter=False,
        report_to=[],
        disable_tqdm=True,
    )
    if arguments.n_gpu > 1:
        arguments._n_gpu = 1  # otherwise Trainer spreads the model over all GPUs, which TRL refuses
    return arguments


def _publish_adapter(trainer: _Trainer, unfinished: Path, target: Path) -> Path:
    model = trainer.accelerator.unwrap_model(trainer.model)
    # "auto" would ask the hub whether the vocabulary has grown.
    model.save_pretrained(unfinished, selected_adapters=["default"], save_embedding_layers=False)
    publish_directory(unfinished, target)
    return target


def _result(trainer: _Trainer, adapter: Path, lengths: LengthCount, seconds: float) -> TrainingResult:
    """Figures come from the log, which a checkpoint carries: those of the last attempt alone would be half the story."""
    steps = [metrics for entry in trainer.state.log_history if (metrics := metrics_of(entry))]
    tail = steps[-max(1, len(steps) // 10) :]
    trainable, _ = trainer.model.get_nb_trainable_parameters()
    counts = {"trainable_parameters": trainable, "dropped_rows": lengths.dropped, "cut_rows": lengths.cut}
    return TrainingResult(
        adapter_dir=adapter,
        steps=trainer.state.global_step,
        final_loss=sum(metrics["loss"] for metrics in tail) / len(tail),
        metrics=steps[-1] | {name: float(count) for name, count in counts.items()},
        seconds=seconds,
    )
