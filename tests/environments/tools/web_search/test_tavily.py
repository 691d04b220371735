from __future__ import annotations

import pytest

from rl.environments.tools.base import ToolFailed

pytestmark = pytest.mark.process


def test_tavily_is_asked_as_it_documents_and_its_results_are_read(double, make_tool):
    shown = make_tool("tavily").run(query="height of the Eiffel Tower")
    assert shown == (
        "[1] Eiffel Tower — https://tower.example/\nIt is 330 metres tall.\n"
        "[2] Seine — https://river.example/\nThe Seine flows through Paris."
    )
    assert double.requests[0].params == {"max_results": 5, "query": "height of the Eiffel Tower"}


def test_its_own_answer_comes_first_and_the_settings_parameters_go_along(double, make_tool):
    shown = make_tool("tavily", default_params={"include_answer": True, "max_results": 1}).run(query="tower")
    assert shown == "[1]\nIt is 330 m.\n[2] Eiffel Tower — https://tower.example/\nIt is 330 metres tall."


def test_a_wrong_key_is_a_sentence_without_the_key(double, make_tool, monkeypatch, caplog):
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-wrong")
    with pytest.raises(ToolFailed, match=r"does not accept the key.*HTTP 401") as failure:
        make_tool("tavily").run(query="tower")
    assert "tvly-wrong" not in str(failure.value) + caplog.text
    assert len(double.requests) == 1
