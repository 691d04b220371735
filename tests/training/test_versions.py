"""How what a run produced gets its name and its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl.errors import UsageError
from rl.models import Agent, Artifact, ModelVersion, TrainingRun
from rl.training import versions

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(agent: Agent, data_dir: Path) -> TrainingRun:
    """A run whose adapter is finished and not placed yet."""
    version = ModelVersion.objects.create(agent=agent, name="v15", base_model="tiny", feedback_count=15)
    run = TrainingRun.objects.create(agent=agent, method="dpo", version=version)
    write_adapter(run.directory / "adapter", "of this run")
    return run


def write_adapter(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text(text)


def placed(version: ModelVersion) -> str:
    return (versions.adapter_directory(version) / "adapter_config.json").read_text()


def test_the_adapter_moves_to_its_version(run):
    versions.place_adapter(run, run.version)
    assert placed(run.version) == "of this run"
    assert not (run.directory / "adapter").exists()
    assert Artifact.objects.get().path == "models/support-chat/v15/adapter"


def test_placing_again_changes_nothing(run):
    for _ in range(2):
        versions.place_adapter(run, run.version)
    assert placed(run.version) == "of this run"
    assert Artifact.objects.count() == 1


def test_a_folder_that_another_database_left_behind_is_not_taken_for_the_new_adapter(run):
    write_adapter(versions.version_directory(run.version) / "adapter", "of a forgotten version")
    versions.place_adapter(run, run.version)
    assert placed(run.version) == "of this run"


def test_a_place_for_the_copy_that_is_taken_is_refused_before_the_training(tmp_path):
    (tmp_path / "adapter").mkdir()
    with pytest.raises(UsageError, match="exists already; give another --output-dir"):
        versions.check_output_dir(str(tmp_path))
    versions.check_output_dir(str(tmp_path / "new" / "folder"))


def test_a_place_for_the_copy_that_is_no_folder_is_refused_before_the_training(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        versions.check_output_dir(str(tmp_path / "file"))
