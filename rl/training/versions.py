"""Turning what a run produced into a ModelVersion with a name and a place."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from django.conf import settings
from django.db import IntegrityError, transaction

from rl.errors import RunConflict, UsageError
from rl.export.checksums import artifact_fields
from rl.files import publish_directory, staged_directory
from rl.models import REWARD_MODEL, Artifact, Deployment, ModelVersion, TrainingRun
from rl.records import TrainingResult, silent
from rl.training import base_models


def register(run: TrainingRun, result: TrainingResult) -> ModelVersion:
    """Names the version ``v{feedback items}``, or ``reward-v…`` where it scores answers, and ties it to the run, in one
    transaction.

    Raises RunConflict when the run has been taken over: two attempts must not make two versions.
    """
    number = 1
    while True:
        try:
            return _register(run, "" if number == 1 else f".{number}")
        except IntegrityError:
            number += 1


def _register(run: TrainingRun, suffix: str) -> ModelVersion:
    assert run.training_set is not None  # noqa: S101  frozen before training
    count, scores = run.training_set.feedback_count, run.method == REWARD_MODEL
    base = run.options.get("base_model") or run.agent.base_model
    with transaction.atomic():
        version = ModelVersion.objects.create(
            agent=run.agent,
            name=f"{'reward-' * scores}v{count}{suffix}",
            parent=None if scores else Deployment.champion(run.agent),
            base_model=base_models.resolve(base, silent),
            feedback_count=count,
        )
        mine = TrainingRun.objects.filter(pk=run.pk, attempt=run.attempt, state=TrainingRun.State.RUNNING)
        if not mine.update(version=version):
            raise RunConflict(f"run {run.pk} was taken over before its version was registered")
    run.version = version
    return version


def version_directory(version: ModelVersion) -> Path:
    return settings.DATA_DIR / "models" / version.agent.name / version.name


def place_adapter(run: TrainingRun, version: ModelVersion) -> None:
    """Moves the finished adapter from the run to its version; does nothing when an earlier attempt has.

    A folder of the same name that another database has left behind gives way.
    """
    source, target = run.directory / "adapter", version_directory(version) / "adapter"
    if source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        publish_directory(source, target)
    Artifact.objects.get_or_create(
        version=version, kind=Artifact.Kind.ADAPTER, quantization="", defaults=artifact_fields(target)
    )


def adapter_directory(version: ModelVersion) -> Path:
    """Raises UsageError when the version's adapter is gone."""
    directory = version_directory(version) / "adapter"
    if not (directory / "adapter_config.json").exists():
        raise UsageError(f"the adapter of {version} is not in {directory}")
    return directory


def check_output_dir(output_dir: str) -> None:
    """For asking before hours of training that end there. Raises UsageError as ``copy_adapter`` would."""
    target = Path(output_dir).expanduser() / "adapter"
    if target.exists():
        raise _taken(target)
    folder = next(path for path in target.absolute().parents if path.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--output-dir {output_dir} cannot be written: {folder} is no folder that you may write to")


def copy_adapter(version: ModelVersion, output_dir: str) -> Path:
    """Does nothing when an earlier attempt has. Raises UsageError when another adapter is there, or when it cannot be
    written."""
    target, source = Path(output_dir).expanduser() / "adapter", adapter_directory(version)
    if target.exists():
        if artifact_fields(target)["sha256"] != artifact_fields(source)["sha256"]:
            raise _taken(target)
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with staged_directory(target) as partial:
            shutil.copytree(source, partial, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise UsageError(f"--output-dir {output_dir} cannot be written: {error}") from error
    return target


def _taken(target: Path) -> UsageError:
    return UsageError(f"{target} exists already; give another --output-dir")
