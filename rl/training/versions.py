"""Turning what a run produced into a ModelVersion with a name and a place."""

from __future__ import annotations

import shutil
from pathlib import Path

from django.conf import settings
from django.db import IntegrityError, transaction

from rl.errors import RunConflict, UsageError
from rl.export.checksums import artifact_fields
from rl.files import staged_directory
from rl.models import Artifact, Deployment, ModelVersion, TrainingRun
from rl.records import TrainingResult, silent
from rl.training import base_models


def register(run: TrainingRun, result: TrainingResult) -> ModelVersion:
    """Names the version ``v{feedback items}`` and ties it to the run, in one transaction.

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
    count = run.training_set.feedback_count
    base = run.options.get("base_model") or run.agent.base_model
    with transaction.atomic():
        version = ModelVersion.objects.create(
            agent=run.agent,
            name=f"v{count}{suffix}",
            parent=Deployment.champion(run.agent),
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
    """Moves the finished adapter from the run to its version; does nothing when an earlier attempt has."""
    target = version_directory(version) / "adapter"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        (run.directory / "adapter").replace(target)
    Artifact.objects.get_or_create(
        version=version, kind=Artifact.Kind.ADAPTER, quantization="", defaults=artifact_fields(target)
    )


def adapter_directory(version: ModelVersion) -> Path:
    """Raises UsageError when the version's adapter is gone."""
    directory = version_directory(version) / "adapter"
    if not (directory / "adapter_config.json").exists():
        raise UsageError(f"the adapter of {version} is not in {directory}")
    return directory


def copy_adapter(version: ModelVersion, output_dir: str) -> Path:
    """Raises UsageError when there is an adapter already, or when it cannot be written."""
    target = Path(output_dir).expanduser() / "adapter"
    if target.exists():
        raise UsageError(f"{target} exists already; give another --output-dir")
    source = adapter_directory(version)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with staged_directory(target) as partial:
            shutil.copytree(source, partial, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise UsageError(f"--output-dir {output_dir} cannot be written: {error}") from error
    return target
