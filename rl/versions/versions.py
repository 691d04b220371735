"""Turning what a run produced into a ModelVersion with a name and a folder, and finding it again by its name."""

import hashlib
import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from rl.base.errors import RunConflict, UsageError
from rl.base.export_records import ExportedFile
from rl.base.files import publish_directory, remove, sha256_of, staged_directory
from rl.base.manner import ASKED_PLAINLY
from rl.config import find_method
from rl.config.methods import scoring_methods
from rl.lm import checkpoints
from rl.lm.model_path import ADAPTER, ADAPTER_CONFIG, MODEL, MODEL_CONFIG, check_weights, is_reward_model
from rl.models import Agent, Artifact, Deployment, ModelVersion, TrainingRun


def artifact_fields(path: Path, files: Sequence[ExportedFile] = ()) -> dict[str, Any]:
    """The fields ``path``, ``size_bytes`` and ``sha256`` of an Artifact. A directory's hash is that of its files'
    relative names and hashes, in order of name. ``files``: its files, where their hashes are known already."""
    inside = path.is_relative_to(settings.DATA_DIR)
    files = files or list_files(path)
    lines = "".join(f"{file.name} {file.sha256}\n" for file in files)
    return {
        "path": str(path.relative_to(settings.DATA_DIR) if inside else path),
        "size_bytes": sum(file.size_bytes for file in files),
        "sha256": files[0].sha256 if path.is_file() else hashlib.sha256(lines.encode()).hexdigest(),
    }


def list_files(path: Path, known: Sequence[ExportedFile] = ()) -> tuple[ExportedFile, ...]:
    """The file, or all files of the directory in order of name. Those that are ``known`` are not read again."""
    by_name = {file.name: file for file in known}
    inside = sorted(file for file in path.rglob("*") if file.is_file())
    names = {path.name: path} if path.is_file() else {file.relative_to(path).as_posix(): file for file in inside}
    return tuple(
        by_name.get(name) or ExportedFile(name, file.stat().st_size, sha256_of(file)) for name, file in names.items()
    )


def find(agent: Agent, name: str) -> Path:
    """A directory, or else a version of the agent. Raises UsageError when it is neither, or scores nothing."""
    directory = Path(name).expanduser()
    if not directory.is_dir():
        version = agent.versions.filter(name__iexact=name).first()
        if version is None:
            raise UsageError(f"there is no reward model {name}: no such folder, and {agent.name} has no such version")
        directory = weights_directory(version)
    if not is_reward_model(check_weights(directory, UsageError)):
        raise UsageError(f"{name} is not a reward model: 'manage.py train_reward_model --agent {agent.name}' makes one")
    return directory


def list_trained(agent: Agent) -> QuerySet[ModelVersion]:
    """The newest first."""
    return agent.versions.filter(run__method__in=scoring_methods())


_WORDED = find_method("dpo").version
"""How the names of versions begin that were not trained: as those of trained ones."""
_CONFIGS = {ADAPTER: ADAPTER_CONFIG, MODEL: MODEL_CONFIG}
"""Folder to the file that makes it one; the folders are named as the kinds of Artifact."""


def register(run: TrainingRun, base_model: str) -> ModelVersion:
    """Names the version by the next free number of its agent (``v1``, ``v2``, …; a reward model's ``reward-v1``, …) and ties
    it to the run, in one transaction. ``base_model``: what ``base_models.resolve`` gave.

    Raises RunConflict when the run has been taken over: two attempts must not make two versions."""
    assert run.training_set is not None  # noqa: S101  frozen before training
    count = run.training_set.feedback_count or _count_of_reward_model(run)
    names = _names(run, count)
    while True:
        try:
            return _register(run, next(names), base_model, count)
        except IntegrityError:
            continue  # the name is taken


def _names(run: TrainingRun, feedback: int) -> Iterator[str]:
    """The wanted one first. Versions that are called otherwise count too: the third version is not ``v1``."""
    start = find_method(run.method).version
    if run.options.get("name_by_feedback"):
        yield f"{start}{feedback}"
        yield from (f"{start}{feedback}.{number}" for number in itertools.count(2))
    yield from _number_names(run.agent, start)


def _number_names(agent: Agent, start: str) -> Iterator[str]:
    made = agent.versions.filter(name__istartswith=start, step=None).count()
    yield from (f"{start}{number}" for number in itertools.count(made + 1))


def _register(run: TrainingRun, name: str, base_model: str, count: int) -> ModelVersion:
    method = find_method(run.method)
    # a task has words of its own
    manner = ASKED_PLAINLY if method.rows.of_tasks else method.config(**run.config).manner
    with transaction.atomic():
        version = ModelVersion.objects.create(
            agent=run.agent,
            name=name,
            parent=None if method.scores else Deployment.champion(run.agent),
            base_model=base_model,
            instruction=manner.instruction,
            instruction_place=manner.instruction_place,
            feedback_count=count,
        )
        own_run = TrainingRun.objects.filter(pk=run.pk, attempt=run.attempt, state=TrainingRun.State.RUNNING)
        if not own_run.update(version=version):
            raise RunConflict(f"run {run.pk} was taken over before its version was registered")
    run.version = version
    return version


def register_worded(
    agent: Agent, weights: ModelVersion | None, instruction: str, instruction_place: str
) -> ModelVersion:
    """Names the version that is ``weights``, None for the base model, with the instruction. It can be served at once."""
    for name in _number_names(agent, _WORDED):
        with suppress(IntegrityError), transaction.atomic():
            return ModelVersion.objects.create(
                agent=agent,
                name=name,
                parent=Deployment.champion(agent),
                weights=weights,
                stage=ModelVersion.Stage.EXPORTED,
                base_model=weights.base_model if weights else agent.base_model,
                instruction=instruction,
                instruction_place=instruction_place,
                feedback_count=weights.feedback_count if weights else 0,
            )
    raise AssertionError  # there is a number more


def register_pass(version: ModelVersion, step: int) -> ModelVersion:
    """Finds or names the version that the training of ``version`` had made after so many steps (``v3-step24``). It is as old
    as that one, and not its agent's newest."""
    made, is_new = ModelVersion.objects.get_or_create(
        agent=version.agent,
        weights=version,
        step=step,
        defaults={
            "name": f"{version.name}-step{step}",
            "stage": ModelVersion.Stage.EVALUATED,
            "parent": version.parent,
            "base_model": version.base_model,
            "instruction": version.instruction,
            "instruction_place": version.instruction_place,
            "feedback_count": version.feedback_count,
        },
    )
    if is_new:
        made.created_at = version.created_at - timedelta(microseconds=1)
        made.save(update_fields=["created_at"])
    return made


def list_passes(version: ModelVersion) -> list[int]:
    """Steps after which its training kept its weights too, in order."""
    return checkpoints.list_passes(version_directory(version))


def _count_of_reward_model(run: TrainingRun) -> int:
    """The feedback items that a policy learned from by way of its reward model; 0 where it had none of its agent."""
    name = run.options.get("reward_model", "")
    rewarding = run.agent.versions.filter(run__method__in=scoring_methods()) if name else ()
    folder = Path(name).expanduser().parent
    named = (row for row in rewarding if name.lower() == row.name.lower() or folder == version_directory(row))
    return next((version.feedback_count for version in named), 0)


def find_version(agent: Agent, name: str | None = None) -> ModelVersion:
    """The agent's version of that name, or its newest that answers. Raises UsageError that lists those there are."""
    answering = agent.versions.exclude(run__method__in=scoring_methods())
    if version := (agent.versions.filter(name__iexact=name) if name else answering).first():
        return version
    known = ", ".join(agent.versions.values_list("name", flat=True)[:20])
    raise UsageError(f"{agent.name} has no version{f' {name!r}' if name else ''}; there are: {known or 'none yet'}")


def version_directory(version: ModelVersion) -> Path:
    return settings.DATA_DIR / "models" / version.agent.name / version.name


def place_weights(run: TrainingRun, version: ModelVersion) -> None:
    """Moves the finished adapter or model from the run to its version; does nothing when an earlier attempt has. The
    run's checkpoints go: those of a whole model are many times its size.

    What another database has left behind under the same name gives way."""
    folder = version_directory(version)
    if source := _weights_in(run.directory):
        folder.mkdir(parents=True, exist_ok=True)
        for name in _CONFIGS.keys() - {source.name}:
            remove(folder / name)
        publish_directory(source, folder / source.name)
    if (passes := run.directory / checkpoints.PASSES).exists():
        publish_directory(passes, folder / checkpoints.PASSES)
    target = weights_directory(version)
    checkpoints.remove_all(run.directory)
    Artifact.objects.get_or_create(version=version, kind=target.name, quantization="", defaults=artifact_fields(target))


def weights_directory(version: ModelVersion) -> Path:
    """The version's adapter, or its model where all weights were trained. Raises UsageError when it is gone."""
    if version.step is None and version.weights:
        return weights_directory(version.weights)
    folder = version_directory(version.trained)
    if version.step is not None:
        folder = checkpoints.pass_folder(folder, version.step)
    if weights := _weights_in(folder):
        return weights
    raise UsageError(f"the weights of {version} are not in {folder}")


def find_weights(version: ModelVersion) -> Path | None:
    """Those of ``weights_directory``; None for the base model with an instruction."""
    return None if version.is_worded and version.weights is None else weights_directory(version)


def _weights_in(folder: Path) -> Path | None:
    return next((folder / name for name, file in _CONFIGS.items() if (folder / name / file).exists()), None)


def check_output_dir(output_dir: str) -> None:
    """Checks the folder before hours of training that end there. Raises UsageError as ``copy_weights`` would."""
    targets = [Path(output_dir).expanduser() / name for name in _CONFIGS]
    if existing := next((target for target in targets if target.exists()), None):
        raise _already_exists(existing)
    folder = next(path for path in targets[0].absolute().parents if path.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--output-dir {output_dir} cannot be written: {folder} is not a folder that you may write to")


def copy_weights(version: ModelVersion, output_dir: str) -> Path:
    """Does nothing when an earlier attempt has. Raises UsageError when other weights are there, or when they cannot be
    written."""
    source = weights_directory(version)
    target = Path(output_dir).expanduser() / source.name
    if target.exists():
        if artifact_fields(target)["sha256"] != artifact_fields(source)["sha256"]:
            raise _already_exists(target)
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with staged_directory(target) as partial:
            shutil.copytree(source, partial, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise UsageError(f"--output-dir {output_dir} cannot be written: {error}") from error
    return target


def _already_exists(target: Path) -> UsageError:
    return UsageError(f"{target} exists already; give another --output-dir")
