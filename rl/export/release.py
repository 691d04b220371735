"""Exporting a version (or a bare checkpoint) and keeping account of the files. Imports no torch: formats are leaf files."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from rl.errors import ExportFailed, UsageError
from rl.export import EXPORTERS
from rl.export.checksums import artifact_fields
from rl.export.levels import check_level
from rl.export.records import ExportJob, ExportResult
from rl.leaves import leaf
from rl.models import Artifact, ModelVersion
from rl.records import Report
from rl.slugs import check_slug
from rl.training import versions
from rl.training.model_path import base_of, check_weights, is_adapter, is_reward_model

_LONGEST_SLUG = 64


def export_version(
    version: ModelVersion, format_name: str, quantization: str, *, report: Report, name: str = "", output: str = ""
) -> Artifact:
    """Writes the files of one format below the version's directory (or ``output``) and records them."""
    directory = Path(output).expanduser() if output else versions.version_directory(version)
    base_model, adapter = _parts(versions.weights_directory(version), version.base_model)
    result = export_files(
        format_name,
        ExportJob(
            base_model=base_model,
            adapter_dir=adapter,
            output_dir=directory,
            name=name or default_name(version),
            quantization=quantization,
        ),
        report,
    )
    artifact, _ = Artifact.objects.update_or_create(
        version=version,
        kind=format_name,
        quantization=result.quantization,
        defaults={**artifact_fields(result.path.resolve()), "details": result.details},
    )
    version.move(ModelVersion.Stage.EXPORTED)
    return artifact


def default_name(version: ModelVersion) -> str:
    """``support-chat-v15``; a long agent's name is cut so that the whole stays a slug."""
    room = _LONGEST_SLUG - len(version.name) - 1
    return f"{version.agent.name[:room].rstrip('._-')}-{version.name}"


def artifact_path(artifact: Artifact) -> Path:
    return settings.DATA_DIR / artifact.path  # an absolute path stays as it is


def export_checkpoint(
    checkpoint: str, format_name: str, quantization: str, *, name: str, output: str, report: Report
) -> ExportResult:
    """Exports the directory of an adapter, which names its base model, or of a whole model, that belongs to no version."""
    directory = check_weights(Path(checkpoint).expanduser(), UsageError)
    base_model, adapter = _parts(directory, base_of(directory) if is_adapter(directory) else "")
    job = ExportJob(
        base_model=base_model,
        adapter_dir=adapter,
        output_dir=Path(output).expanduser() if output else directory.parent,
        name=name or directory.name,
        quantization=quantization,
    )
    return export_files(format_name, job, report)


def _parts(weights: Path, base_model: str) -> tuple[str, Path | None]:
    """Base model and adapter to export; a whole model stands for itself."""
    return (base_model, weights) if is_adapter(weights) else (str(weights), None)


def export_files(format_name: str, job: ExportJob, report: Report) -> ExportResult:
    """Raises UsageError for an unknown format or level or a bad name, ExportFailed for all that breaks on the way."""
    if format_name not in EXPORTERS:
        raise UsageError(f"unknown format {format_name!r}; known: {', '.join(EXPORTERS)}")
    if is_reward_model(job.adapter_dir or Path(job.base_model)):
        raise UsageError(f"{job.name} is a reward model: it scores answers, and is not exported")
    check_level(job.quantization)
    check_slug(job.name, "model name")
    try:
        job.output_dir.mkdir(parents=True, exist_ok=True)
        result: ExportResult = leaf(EXPORTERS[format_name]).export(job, report)
    except OSError as error:
        raise ExportFailed(f"{job.output_dir}: {error.strerror or error}") from error
    return result
