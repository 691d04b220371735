"""The GGUF file of a version or of a base model: the exported one, or one that is exported now."""

from dataclasses import dataclass
from pathlib import Path

from rl.base.records import Report
from rl.export import release
from rl.models import Agent, Artifact, Deployment, ModelVersion
from rl.versions.versions import artifact_fields


@dataclass(frozen=True, slots=True)
class ModelFile:
    path: Path
    stored_path: str
    """Relative to DATA_DIR where it is inside."""
    sha256: str


def model_file(agent: Agent, version: ModelVersion | None, target: str, level: str, report: Report) -> ModelFile:
    """The file that the target takes. Raises what an export raises."""
    if version is None:
        base_export = release.export_base(agent, level, report=report)
        path = base_export.path.resolve()
        fields = artifact_fields(path, base_export.files)
        return ModelFile(path, fields["path"], fields["sha256"])
    artifact = find_export(version, target, level)
    if artifact is None:
        kind = _kind_for(target)
        report("stage", {"name": f"exporting GGUF {level if kind == Artifact.Kind.GGUF else 'adapter'}"})
        artifact = release.export_version(version, kind, level, report=report)
    return ModelFile(release.artifact_path(artifact), artifact.path, artifact.sha256)


def _kind_for(target: str) -> str:
    adapter = target == Deployment.Target.ADAPTER
    return Artifact.Kind.GGUF_LORA.value if adapter else Artifact.Kind.GGUF.value


def find_export(version: ModelVersion, target: str, level: str) -> Artifact | None:
    """None when there is none that the target takes, at that level, or its file is gone. An adapter has no level."""
    kind = _kind_for(target)
    is_adapter = kind == Artifact.Kind.GGUF_LORA
    artifact = version.artifacts.filter(kind=kind).first() if is_adapter else version.gguf(level)
    return artifact if artifact is not None and release.artifact_path(artifact).is_file() else None
