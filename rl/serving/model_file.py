"""The GGUF file of a version or of a base model: the exported one, or one that is exported now."""

from dataclasses import dataclass
from pathlib import Path

from rl.base.records import Report
from rl.export import release
from rl.models import Agent, Artifact, ModelVersion
from rl.versions.versions import artifact_fields


@dataclass(frozen=True, slots=True)
class ModelFile:
    path: Path
    stored_path: str
    """Relative to DATA_DIR where it is inside."""
    sha256: str


def model_file(agent: Agent, version: ModelVersion | None, level: str, report: Report) -> ModelFile:
    """Raises what an export raises."""
    if version is None:
        base_export = release.export_base(agent, level, report=report)
        path = base_export.path.resolve()
        fields = artifact_fields(path, base_export.files)
        return ModelFile(path, fields["path"], fields["sha256"])
    artifact = find_export(version, level)
    if artifact is None:
        report("stage", {"name": f"exporting GGUF {level}"})
        artifact = release.export_version(version, "gguf", level, report=report)
    return ModelFile(release.artifact_path(artifact), artifact.path, artifact.sha256)


def find_export(version: ModelVersion, level: str) -> Artifact | None:
    """None when there is none at that level, or its file is gone."""
    artifact = version.gguf(level)
    return artifact if artifact is not None and release.artifact_path(artifact).is_file() else None
