"""The GGUF file of a version or of a base model: the exported one, or one that is exported now."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rl.base.records import Report
from rl.export import release
from rl.models import Agent, Artifact, ModelVersion
from rl.versions.checksums import artifact_fields


@dataclass(frozen=True, slots=True)
class ModelFile:
    path: Path
    stored_path: str
    """Relative to DATA_DIR where it is inside."""
    sha256: str


def model_file(agent: Agent, version: ModelVersion | None, level: str, report: Report) -> ModelFile:
    """Raises what an export raises."""
    if version is None:
        made = release.export_base(agent, level, report=report)
        path = made.path.resolve()
        fields = artifact_fields(path, made.files)
        return ModelFile(path, fields["path"], fields["sha256"])
    artifact = exported(version, level)
    if artifact is None:
        report("stage", {"name": f"exporting GGUF {level}"})
        artifact = release.export_version(version, "gguf", level, report=report)
    return ModelFile(release.artifact_path(artifact), artifact.path, artifact.sha256)


def exported(version: ModelVersion, level: str) -> Artifact | None:
    """None when there is none at that level, or its file is gone."""
    found = version.gguf(level)
    return found if found is not None and release.artifact_path(found).is_file() else None
