from __future__ import annotations

import pytest

from rl.environments.tools.base import ToolFailed

pytestmark = pytest.mark.process


def test_serper_is_asked_as_it_documents_and_the_answer_box_comes_first(double, make_tool):
    shown = make_tool("serper").run(query="height of the Eiffel Tower")
    assert shown.splitlines()[:4] == [
        "[1] Eiffel Tower / Height — https://box.example/",
        "330 m",
        "[2] Eiffel Tower — https://tower.example/",
        "It is 330 metres tall.",
    ]
    assert double.requests[0].params == {"num": 5, "q": "height of the Eiffel Tower"}


def test_a_wrong_key_is_a_sentence(make_tool, monkeypatch):
    monkeypatch.setenv("SERPER_API_KEY", "wrong")
    with pytest.raises(ToolFailed, match="does not accept the key"):
        make_tool("serper").run(query="tower")
