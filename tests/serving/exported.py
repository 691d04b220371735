"""Versions with a file that a server can be given."""

from pathlib import Path

from rl.models import Agent, Artifact, ModelVersion
from rl.versions.versions import artifact_fields
from tests.export.tiny_gguf import CHATML, write_gguf


def exported(agent: Agent, name: str, data_dir: Path, template: str = CHATML, kind: str = "gguf") -> Artifact:
    """A version of the agent at stage EXPORTED, and its file."""
    version = ModelVersion.objects.create(
        agent=agent, name=name, base_model="tiny", feedback_count=15, stage=ModelVersion.Stage.EXPORTED
    )
    folder = data_dir / "models" / agent.name / name
    folder.mkdir(parents=True)
    fields = artifact_fields(write_gguf(folder / f"{name}.gguf", template))
    return Artifact.objects.create(version=version, kind=kind, quantization="q8_0", **fields)
