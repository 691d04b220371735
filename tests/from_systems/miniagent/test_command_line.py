from pathlib import Path

import pytest

from rl.base.errors import UsageError
from rl.environments.config_file import AgentFile
from rl.environments.settings import EnvironmentSettings
from rl.from_systems.miniagent.command_line import base_model_of, defaults_for, policy_type_of

HUB = "somebody/something"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def file_of(kind: str) -> AgentFile:
    return AgentFile(environment=EnvironmentSettings(kind))


def test_the_model_is_the_one_that_the_policy_type_takes(here: Path):
    (here / "mine").mkdir()
    folder = str(here / "mine")
    assert base_model_of("minimind", "", "mine", HUB) == folder
    assert base_model_of("huggingface", "", "mine", HUB) == HUB
    assert base_model_of(None, "", "mine", HUB) == folder
    assert base_model_of(None, "", "", HUB) == HUB
    assert base_model_of("minimind", "", "", HUB) == ""
    assert base_model_of(None, "other", "", "") == "other"


def test_a_folder_that_is_not_there_is_refused(here: Path):
    with pytest.raises(UsageError, match="--model-path mine: there is no such folder"):
        base_model_of("minimind", "", "mine", "")


def test_a_model_is_named_once(here: Path):
    with pytest.raises(UsageError, match="leave out --model-path and --hf-model-name"):
        base_model_of(None, "other", "", HUB)


def test_a_model_of_hugging_face_is_talked_to_as_it_can():
    assert [policy_type_of(name) for name in ("huggingface", "minimind", None)] == ["auto", "minimind", None]


@pytest.mark.parametrize(("kind", "folder", "shown"), [("code_exec", "code_tasks", 3), ("search", "search_tasks", 2)])
def test_its_tasks_and_its_model_are_taken_where_they_lie(here: Path, kind: str, folder: str, shown: int):
    (here / "dataset" / folder).mkdir(parents=True)
    (here / "model").mkdir()
    (here / "model" / "config.json").write_text("{}")
    defaults = defaults_for(file_of(kind), None)
    assert (defaults.dataset_dir, defaults.base_model) == (str(here / "dataset" / folder), str(here / "model"))
    assert (defaults.preview_tasks, defaults.notes) == (shown, ())
    assert defaults_for(file_of(kind), "huggingface").base_model == ""


def test_without_them_the_file_and_ratchet_have_some(here: Path):
    defaults = defaults_for(file_of("search"), None)
    assert (defaults.dataset_dir, defaults.base_model) == ("", "")
    assert "there is no folder dataset/search_tasks here" in defaults.notes[0]
    with pytest.raises(UsageError, match="takes the model from --model-path, and there is no folder model here"):
        defaults_for(file_of("search"), "minimind")
