"""--output-dir: a copy of a version's adapter where a person wants it."""

from pathlib import Path

import pytest

from rl.base.errors import UsageError
from rl.models import Agent, ModelVersion
from rl.versions import versions

pytestmark = pytest.mark.django_db


@pytest.fixture
def version(agent: Agent, data_dir: Path) -> ModelVersion:
    version = ModelVersion.objects.create(agent=agent, name="v1", base_model="tiny", feedback_count=1)
    folder = versions.version_directory(version) / "adapter"
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text("{}")
    return version


def test_the_copy_is_whole_in_a_new_folder(version: ModelVersion, tmp_path: Path):
    target = versions.copy_weights(version, str(tmp_path / "new" / "out"))
    assert target == tmp_path / "new" / "out" / "adapter"
    assert (target / "adapter_config.json").read_text() == "{}"
    assert [path.name for path in target.parent.iterdir()] == ["adapter"]


def test_an_adapter_that_is_there_already_stays_as_it_is(version: ModelVersion, tmp_path: Path):
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text("of somebody else")
    with pytest.raises(UsageError, match="exists already"):
        versions.copy_weights(version, str(tmp_path))
    assert (tmp_path / "adapter" / "adapter_config.json").read_text() == "of somebody else"


def test_a_run_that_was_killed_after_the_copy_goes_on(version: ModelVersion, tmp_path: Path):
    assert versions.copy_weights(version, str(tmp_path)) == versions.copy_weights(version, str(tmp_path))


def test_a_place_that_cannot_be_written_is_one_clear_error(version: ModelVersion, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"--output-dir .*file cannot be written: "):
        versions.copy_weights(version, str(tmp_path / "file"))
