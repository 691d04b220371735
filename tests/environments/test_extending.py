"""The example of docs/extending.md, as somebody would follow it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from django.conf import settings

from rl.environments import environment_class
from rl.environments.dialects.hermes import read_action
from rl.environments.settings import EnvironmentSettings


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
