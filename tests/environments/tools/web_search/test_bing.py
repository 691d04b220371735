from __future__ import annotations

import pytest

from rl.environments.tools.base import ToolFailed
from tests.environments.tools.web_search.search_double import Reply

pytestmark = pytest.mark.process


def test_bing_is_asked_as_it_documents_and_its_results_are_read(double, make_tool):
    shown = make_tool("bing", default_params={"mkt": "en-US", "textDecorations": False}).run(query="Eiffel & co")
    assert shown.splitlines()[:2] == ["[1] Eiffel Tower — https://tower.example/", "It is 330 metres tall."]
    assert double.requests[0].params == {
        "count": ["5"],
        "mkt": ["en-US"],
        "textDecorations": ["false"],
        "q": ["Eiffel & co"],
    }


def test_an_answer_without_web_pages_means_that_nothing_was_found(make_tool):
    assert make_tool("bing").run(query="nothing at all") == "nothing found"


def test_the_empty_body_by_which_bing_slows_attackers_is_a_failure(double, make_tool):
    double.script = [Reply(200, b"")]
    with pytest.raises(ToolFailed, match="cannot be read"):
        make_tool("bing").run(query="tower")
