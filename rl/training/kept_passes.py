"""The adapter as it is after each pass but the last, for whoever wants to ask those too."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peft import PeftModel
from transformers import TrainerCallback, TrainerState, TrainingArguments

from rl.base.files import publish_directory
from rl.config.training_job import TrainingJob
from rl.lm import checkpoints, processes
from rl.lm.model_path import ADAPTER

_ROUNDED = 1e-6


def kept_passes(job: TrainingJob) -> Iterator[TrainerCallback]:
    if job.keep_passes:
        yield KeptPasses(job.output_dir, job.keep_passes)


class KeptPasses(TrainerCallback):
    """Keeps the newest ``most`` in ``output_dir/passes/STEP/adapter``. A model that is trained whole, or that each process
    has a part of, is too large to be kept several times."""

    def __init__(self, output_dir: Path, most: int) -> None:
        self.output_dir, self.most = output_dir, most

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: Any, model: Any = None, **kwargs: Any
    ) -> None:
        is_whole = abs((state.epoch or 0.0) - round(state.epoch or 0.0)) < _ROUNDED  # one that was stopped ends too
        is_last = state.global_step >= state.max_steps
        if not is_whole or is_last or not isinstance(model, PeftModel) or processes.cuts_models():
            return
        if processes.is_first():
            unfinished = Path(args.output_dir) / f"pass-{state.global_step}"
            model.save_pretrained(unfinished / ADAPTER, selected_adapters=["default"], save_embedding_layers=False)
            kept = checkpoints.pass_folder(self.output_dir, state.global_step)
            kept.parent.mkdir(exist_ok=True)
            publish_directory(unfinished, kept)
            checkpoints.remove_old_passes(self.output_dir, self.most)
        processes.wait()
