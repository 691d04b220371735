"""What trains, exports and deploys needs Ratchet's settings. A script of one's own gets them here."""

import os
import shutil
from pathlib import Path
from typing import Any

from django.apps import apps

from rl.base.export_records import ExportJob
from rl.base.leaves import import_name, leaf
from rl.base.records import silent

_STATE_OF_TRAINING = shutil.ignore_patterns("optimizer.pt", "scheduler.pt", "rng_state*.pth", "trainer_state.json")


def set_up_site() -> None:
    """As a command of ``manage.py`` does before it starts; nothing where that is done. Raises ImproperlyConfigured for wrong
    or missing settings, which ``manage.py quickstart`` makes."""
    if not apps.ready:
        import django

        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.settings")
        django.setup()


def resolve_base_model(name: str) -> str:
    """A folder or a hub id that can be loaded. Raises UsageError, and what ``set_up_site`` raises."""
    set_up_site()
    base: str = import_name("rl.lm.base_models.resolve")(name, silent)
    return base


def core_trainer(method: str, base_model: str, folder: Path, config: Any, scorer: Any = None) -> Any:
    """Ratchet's trainer of rows, which works in ``folder``. Raises as ``resolve_base_model``."""
    trainer = import_name("rl.runs.pipeline.RLTrainer")
    return trainer(method, resolve_base_model(base_model), folder, config, scorer=scorer)


def write_weights(base_model: str, weights: Path, directory: Path, name: str, *, merge: bool) -> None:
    """``merge``: an adapter into the base model, which ``resolve_base_model`` gave; else the weights as they are. With the
    tokenizer, and without what a checkpoint has beside weights."""
    if merge:
        job = ExportJob(base_model, weights, directory.parent / name, name)
        leaf("rl.export.hf.merge").write_merged(job, directory, silent)
    else:
        shutil.copytree(weights, directory, dirs_exist_ok=True, ignore=_STATE_OF_TRAINING)
        leaf("rl.lm.loading").load_tokenizer(base_model).save_pretrained(directory)
