from __future__ import annotations

import pytest

from rl.base.errors import UsageError
from rl.environments.tools.web_search import SearchSettings
from rl.environments.tools.web_search.settings import custom_backend
from tests.environments.tools.web_search.search_double import Reply

FOUND = {"title": "Tower", "url": "https://tower.example/", "content": "330 m"}


@pytest.mark.process
def test_an_endpoint_of_ones_own_is_asked_without_a_key(double, make_tool):
    shown = make_tool("searxng", method="GET", default_params={"format": "json"}).run(query="tower")
    assert "[2] Seine — https://river.example/" in shown
    assert "Authorization" not in double.requests[0].headers


@pytest.mark.process
def test_a_key_is_sent_when_the_settings_name_its_variable(double, make_tool, monkeypatch):
    monkeypatch.setenv("MY_SEARCH_KEY", "mine")
    make_tool("searxng", method="GET", default_params={"format": "json"}, api_key_env="MY_SEARCH_KEY").run(
        query="tower"
    )
    assert double.requests[0].headers["Authorization"] == "Bearer mine"


@pytest.mark.process
def test_a_placeholder_names_the_parameter_of_the_query(double, make_tool):
    double.script = [Reply(200, [FOUND])]
    make_tool("mine", method="GET", default_params={"search": "{query}", "lang": "en"}).run(query="tower")
    assert double.requests[0].params == {"search": ["tower"], "lang": ["en"]}


@pytest.mark.process
def test_without_a_method_the_query_is_posted_as_json(double, make_tool):
    double.script = [Reply(200, {"results": [FOUND], "answer": "330 metres"})]
    assert make_tool("mine", default_params={"lang": "en"}).run(query="tower").startswith("[1] Tower")
    request = double.requests[0]
    assert (request.method, request.params) == ("POST", {"query": "tower", "top_k": 5, "lang": "en"})
    assert "Authorization" not in request.headers


@pytest.mark.process
@pytest.mark.parametrize("by_key", [True, False])
def test_the_method_may_stand_among_the_parameters_too(double, make_tool, by_key: bool):
    double.script = [Reply(200, [FOUND])]
    settings = {"method": "GET"} if by_key else {"default_params": {"method": "GET"}}
    make_tool("mine", **settings).run(query="tower")
    assert (double.requests[0].method, double.requests[0].params) == ("GET", {"q": ["tower"]})


def test_a_provider_of_its_own_way_has_no_method():
    with pytest.raises(UsageError, match=r"tools\.search\.method is for an endpoint of your own"):
        SearchSettings.of({"mode": "web", "provider": "serper", "method": "GET"})


@pytest.mark.parametrize("document", [{"results": [], "answer": "330 metres"}, {"answer": "330 metres"}])
def test_an_answer_counts_where_there_are_no_results(document):
    assert custom_backend({}).results(document) == [("", "", "330 metres")]


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
