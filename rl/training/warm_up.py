"""Supervised fine-tuning on good answers, before a preference method starts from it and is held near it.

Preferences between answers that the model would never give teach little; a short imitation of the good ones first makes
them likely (Ouyang et al., 2022). The answers are those of the run's own training rows, each text once. The result is
kept in ``output_dir/warm-up``, so a resumed run does not imitate again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from peft import PeftModel
from transformers import PreTrainedModel
from trl.trainer.utils import disable_dropout_in_model

from rl.lm.checkpoints import WARM_UP
from rl.lm.log_probs import PromptAndAnswer
from rl.lm.resources import release_memory
from rl.training import fitting
from rl.training.imitating import good_rows, make_trainer
from rl.training.preparing import Start


def load_untrained(start: Start, source: Path | None = None) -> PreTrainedModel:
    """The model in ``source``, or the base model, without dropout; TRL's switch would turn off the adapter's too."""
    model = start.model(source=source)
    disable_dropout_in_model(model)
    return model


def warm_up(start: Start, good: Iterable[PromptAndAnswer]) -> PreTrainedModel | PeftModel:
    """The model that has imitated the good answers: itself, or with a trainable adapter; the base model where the job does
    not ask for it."""
    config, target = start.job.config, start.job.output_dir / WARM_UP
    if not config.sft_epochs:
        return load_untrained(start)
    if config.full:
        if not target.exists():
            _imitate(start, load_untrained(start), good)
            release_memory()
        return load_untrained(start, target)
    model = load_untrained(start)
    if not target.exists():
        model = _imitate(start, model, good).unload()
    start.report("stage", {"name": "preparing"})
    return PeftModel.from_pretrained(model, str(target), is_trainable=True)


def _imitate(start: Start, model: PreTrainedModel, good: Iterable[PromptAndAnswer]) -> PreTrainedModel | PeftModel:
    """Leaves in the folder what was trained, and returns the whole of it."""
    job, rows = start.job, good_rows(start, good)
    of_warm_up = {"num_train_epochs": job.config.sft_epochs, "max_steps": -1, "save_strategy": "no"}
    trainer = make_trainer(start, model, rows, job.config, **of_warm_up)
    start.report("log", {"text": f"imitates {len(rows)} good answers first"})
    fitting.fit(trainer, job, None, start.report, stage="imitating good answers")
    fitting.publish(trainer, start, WARM_UP)
    return trainer.accelerator.unwrap_model(trainer.model)
