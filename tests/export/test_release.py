"""What files are called, what they are made from, what is written about them, and what they may not replace."""

import hashlib
import shutil
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.base.export_records import ExportJob, ExportResult
from rl.base.records import Report, silent
from rl.base.slugs import check_slug
from rl.export import EXPORTERS, release
from rl.export.release import default_name
from rl.lm import base_models
from rl.models import Agent, ModelVersion
from rl.versions import versions
from rl.versions.versions import artifact_fields, list_files

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("agent_name", ["support-chat", "a" * 64, "a" * 53 + "-" + "b" * 10])
def test_the_name_of_a_file_is_usable_however_long_the_agents_name_is(agent_name):
    agent = Agent.objects.create(name=agent_name)
    agent.full_clean()
    version = ModelVersion.objects.create(agent=agent, name="v100000.2", base_model="tiny", feedback_count=1)
    name = default_name(version)
    assert check_slug(name).endswith("-v100000.2")
    assert name.startswith(agent_name[:53])


@pytest.fixture
def whole(agent: Agent, data_dir: Path) -> ModelVersion:
    """The files of a version all of whose weights were trained; what is in them does not matter here."""
    version = ModelVersion.objects.create(agent=agent, name="v1", base_model="tiny", feedback_count=1)
    folder = versions.version_directory(version) / "model"
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).write_text("{}")
    return version


@pytest.mark.learn
def test_a_whole_model_has_no_adapter_to_export(whole: ModelVersion):
    with pytest.raises(UsageError, match="a whole model: export it as merged or gguf"):
        release.export_version(whole, "lora", "f16", report=silent)


def test_a_whole_model_stands_for_itself(whole: ModelVersion, monkeypatch: pytest.MonkeyPatch):
    jobs: list[ExportJob] = []
    monkeypatch.setattr(release, "export_files", lambda name, job, known, report: jobs.append(job))
    directory = versions.weights_directory(whole)
    release.export_checkpoint(str(directory), "gguf", "f16", report=silent)
    assert (jobs[0].base_model, jobs[0].adapter_dir, jobs[0].name) == (str(directory), None, "model")


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> list[ExportJob]:
    """Stands in for every format; the jobs that it was given."""

    def export(job: ExportJob, report: Report) -> ExportResult:
        jobs.append(job)
        path = (
            job.output_dir / format_of[0]
            if format_of
            else job.output_dir / "gguf" / f"{job.name}-{job.quantization}.gguf"
        )
        file = path / "weights" / "part" if format_of else path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"the weights of {job.name}")
        return ExportResult(path, job.quantization, {"tensor_types": {"F16": 3}})

    def leaf(path: str) -> Any:
        if path not in EXPORTERS.values():
            return import_module(path)
        (name,) = (name for name, module in EXPORTERS.items() if module == path)
        format_of[:] = [] if "gguf" in name else [name]
        return SimpleNamespace(export=export)

    jobs: list[ExportJob] = []
    format_of: list[str] = []
    monkeypatch.setattr(release, "leaf", leaf)
    return jobs


def test_a_file_is_recorded_with_its_size_and_hash_and_has_its_card_beside_it(whole: ModelVersion, exporter):
    artifact = release.export_version(whole, "gguf", "q8_0", report=silent)
    path = release.artifact_path(artifact)
    assert artifact.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert artifact.size_bytes == path.stat().st_size
    assert artifact.details == {
        "tensor_types": {"F16": 3},
        "model_card": f"{path.stem}.md",
        "version_file": f"{path.stem}.json",
    }
    assert artifact.sha256 in path.with_suffix(".md").read_text()


def test_the_hash_of_a_directory_is_of_its_card_too(whole: ModelVersion, exporter):
    artifact = release.export_version(whole, "merged", "f16", report=silent)
    path = release.artifact_path(artifact)
    assert artifact_fields(path)["sha256"] == artifact.sha256
    assert [file.name for file in list_files(path)] == ["README.md", "version.json", "weights/part"]
    assert "weights/part" in (path / "README.md").read_text()
    (path / "README.md").write_text("# Another one")
    assert artifact_fields(path)["sha256"] != artifact.sha256


def test_exporting_again_replaces_what_the_version_had(whole: ModelVersion, exporter):
    first = release.export_version(whole, "merged", "f16", report=silent, name="another-name")
    second = release.export_version(whole, "merged", "f16", report=silent)
    assert (first.pk, first.path) == (second.pk, second.path)
    assert "another-name" not in (release.artifact_path(second) / "README.md").read_text()


@pytest.mark.parametrize("format_name", ["merged", "lora", "onnx"])
def test_another_models_directory_is_not_replaced(
    format_name: str, agent: Agent, whole: ModelVersion, exporter, tmp_path: Path
):
    release.export_version(whole, format_name, "f16", report=silent, output=str(tmp_path), name="mine")
    release.export_version(whole, format_name, "f16", report=silent, output=str(tmp_path), name="mine")
    with pytest.raises(UsageError, match=f"{tmp_path}/{format_name} holds the model mine: give another --output"):
        release.export_version(whole, format_name, "f16", report=silent, output=str(tmp_path), name="yours")
    weights = str(versions.weights_directory(whole))
    with pytest.raises(UsageError, match="holds the model mine"):
        release.export_checkpoint(weights, format_name, "f16", report=silent, output=str(tmp_path))
    assert len(exporter) == 2


def test_a_directory_that_somebody_else_made_is_not_replaced(whole: ModelVersion, exporter, tmp_path: Path):
    (tmp_path / "merged").mkdir()
    release.export_version(whole, "merged", "f16", report=silent, output=str(tmp_path))
    (tmp_path / "merged" / "README.md").write_text("# Holiday photographs")
    with pytest.raises(UsageError, match="holds something that was not exported here"):
        release.export_version(whole, "merged", "f16", report=silent, output=str(tmp_path))


@pytest.mark.database
def test_two_models_share_a_directory_of_gguf_files(whole: ModelVersion, exporter, tmp_path: Path):
    for name in ("mine", "yours"):
        release.export_version(whole, "gguf", "f16", report=silent, output=str(tmp_path), name=name)
    assert sorted(path.name for path in (tmp_path / "gguf").iterdir()) == [
        "mine-f16.gguf",
        "mine-f16.json",
        "mine-f16.md",
        "yours-f16.gguf",
        "yours-f16.json",
        "yours-f16.md",
    ]


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint-5"
    folder.mkdir()
    (folder / "adapter_config.json").write_text("{}")
    (folder / "adapter_model.safetensors").write_text("")
    return folder


def test_an_adapter_that_names_no_base_model_needs_one(adapter: Path, exporter):
    with pytest.raises(UsageError, match=r"adapter_config.json.*, or give --base-model"):
        release.export_checkpoint(str(adapter), "gguf", "f16", report=silent)
    release.export_checkpoint(str(adapter), "gguf", "f16", report=silent, base="acme/base-1b")
    assert (exporter[0].base_model, exporter[0].adapter_dir) == ("acme/base-1b", adapter)
    assert "| base model | acme/base-1b |" in (adapter.parent / "gguf" / "checkpoint-5-f16.md").read_text()


def test_a_base_model_is_exported_once(agent: Agent, data_dir: Path, exporter):
    base_models.folder_of("tiny").mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (base_models.folder_of("tiny") / name).write_text("{}")
    agent.base_model = "tiny"

    def export(level: str = "q8_0") -> ExportResult:
        return release.export_base(agent, level, report=silent)

    first = export("Q8_0")
    assert first.path == data_dir / "models" / agent.name / "base" / "gguf" / f"{agent.name}-base-q8_0.gguf"
    assert (export().path, export().files) == (first.path, first.files)
    assert len(exporter) == 1
    first.path.write_text("damaged")
    assert export() == first
    assert len(exporter) == 2
    agent.base_model = str(shutil.copytree(base_models.folder_of("tiny"), data_dir / "other"))
    assert export().path == first.path
    assert len(exporter) == 3
    (data_dir / "other" / "model.safetensors").write_text("other weights")
    export()
    assert len(exporter) == 4
