from __future__ import annotations

import pytest

from rl.environments.tools.web_search.custom import custom_backend
from tests.environments.tools.web_search.search_double import Reply

FOUND = {"title": "Tower", "url": "https://tower.example/", "content": "330 m"}


def test_an_endpoint_of_ones_own_is_asked_without_a_key(double, make_tool):
    shown = make_tool("searxng", default_params={"format": "json"}).run(query="tower")
    assert "[2] Seine — https://river.example/" in shown
    assert "Authorization" not in double.requests[0].headers


def test_a_key_is_sent_when_the_settings_name_its_variable(double, make_tool, monkeypatch):
    monkeypatch.setenv("MY_SEARCH_KEY", "mine")
    make_tool("searxng", default_params={"format": "json"}, api_key_env="MY_SEARCH_KEY").run(query="tower")
    assert double.requests[0].headers["Authorization"] == "Bearer mine"


def test_a_placeholder_names_the_parameter_of_the_query(double, make_tool):
    double.script = [Reply(200, [FOUND])]
    make_tool("mine", default_params={"search": "{query}", "lang": "en"}).run(query="tower")
    assert double.requests[0].params == {"search": ["tower"], "lang": ["en"]}


@pytest.mark.parametrize(
    "document",
    [
        [FOUND],
        {"results": [FOUND]},
        {"items": [FOUND]},
        {"organic": [{"name": "Tower", "link": "https://tower.example/", "snippet": "330 m"}]},
        {"data": [{"title": "Tower", "href": "https://tower.example/", "description": "330 m"}]},
        {"hits": [{"title": "Tower", "url": "https://tower.example/", "text": "330 m"}]},
        {"web": {"results": [FOUND]}},
        {"webPages": {"value": [FOUND]}},
    ],
)
def test_results_are_found_at_the_usual_places(document):
    assert custom_backend({}).results(document) == [("Tower", "https://tower.example/", "330 m")]


@pytest.mark.parametrize("document", [{}, None, "text", 3, {"results": {"title": "Tower"}}, {"web": []}])
def test_another_shape_is_no_list_of_results(document):
    with pytest.raises(ValueError, match="no list of results"):
        custom_backend({}).results(document)
