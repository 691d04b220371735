import re
import sys
from pathlib import Path

import pytest
from django.conf import settings

from rl import environments
from rl.base.errors import UsageError
from rl.environments import ENVIRONMENTS, environment_class
from rl.environments.base import AgentEnv
from rl.environments.dialects.hermes import read_action
from rl.environments.settings import EnvironmentSettings
from tests.environments.test_base import FindTheCat


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_those_of_the_table_are_environments(name: str):
    assert issubclass(environment_class(name), AgentEnv)


def test_one_of_your_own_is_named_by_its_path():
    assert environment_class("tests.environments.test_base:FindTheCat") is FindTheCat


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("cod_exec", "unknown environment 'cod_exec'.*; known: code_exec, search"),
        ("no.such:Thing", "there is no environment no.such:Thing"),
        ("tests.environments.test_base:Nothing", "there is no environment"),
        ("tests.environments.test_base:Look", "is not an environment: it must be a class made from"),
    ],
    ids=["name", "module", "class", "kind"],
)
def test_what_is_none_is_refused(name: str, told: str):
    with pytest.raises(UsageError, match=told):
        environment_class(name)


def test_a_module_of_somebody_that_breaks_is_told_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "half_written.py").write_text("class Half(")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="half_written cannot be imported: SyntaxError"):
        environment_class("half_written:Half")


def test_what_users_need_can_be_imported_from_the_package():
    assert all(getattr(environments, name) for name in environments.__all__)
    assert environments.CodeExecEnv is environment_class("code_exec")
    with pytest.raises(AttributeError, match="no attribute 'NoEnv'"):
        _ = environments.NoEnv


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    page = (settings.BASE_DIR / "docs" / "extending.md").read_text()
    [code] = re.findall(r"```python\n(from rl\.environments.*?)```", page, re.DOTALL)
    (tmp_path / "umbrella.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    yield code
    sys.modules.pop("umbrella", None)


def test_an_environment_and_a_tool_are_added_in_under_forty_lines(written: str):
    assert len(written.splitlines()) < 40
    environment = environment_class("umbrella:UmbrellaEnv")(max_turns=4)
    [schema] = environment.tools.schemas
    assert schema["function"]["description"] == "Tells the weather."
    assert environment.reset({"city": "Bonn", "answer": "yes"})[-1]["content"] == "Do I need an umbrella in Bonn?"
    ask = '<tool_call>{"name": "weather", "arguments": {"city": "%s"}}</tool_call>'
    assert environment.step(read_action(ask % "Paris")).observation == "error: nothing is known of Paris"
    assert environment.step(read_action(ask % "Bonn")).observation == "rain"
    last = environment.step(read_action("Yes, you do."))
    assert (last.reward, last.info["reason"]) == (1.0, "it is right")


def test_the_file_of_train_agent_can_name_it(written: str):
    settings = EnvironmentSettings("umbrella:UmbrellaEnv", {"max_turns": 3}).check()
    assert settings.build().name == "umbrella:UmbrellaEnv"
