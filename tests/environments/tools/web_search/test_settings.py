import math

import pytest

from rl.base.errors import UsageError
from rl.environments.tools.web_search.settings import SEARCH_BACKENDS, SearchSettings, custom_backend
from tests.environments.tools.web_search.search_double import Reply


def test_the_keys_of_a_configuration_are_taken():
    values = {
        "mode": "web",
        "provider": "tavily",
        "api_key_env": "MY_KEY",
        "endpoint": "https://proxy.example/tavily",
        "default_params": {"max_results": 3, "include_domains": ["a.example"]},
        "timeout": 20,
        "max_retries": 2,
        "backoff_factor": 0.8,
        "rate_limit_per_min": None,
        "max_snippet_chars": 520,
    }
    settings = SearchSettings.of(values)
    assert {key: getattr(settings, key) for key in values} == values


def test_documents_are_searched_unless_the_settings_say_otherwise():
    assert SearchSettings().mode == "corpus"


def test_an_unknown_key_is_refused_with_the_nearest_known_one():
    with pytest.raises(
        UsageError,
        match=r"unknown key 'tools.search.max_retry' \(did you mean max_retries\?\); known: mode",
    ):
        SearchSettings.of({"max_retry": 1})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mode", "internet"),
        ("provider", 3),
        ("provider", "a b"),
        ("api_key_env", "tvly-abc"),
        ("api_key_env", None),
        ("endpoint", 5),
        ("corpus", ["a", 3]),
        ("corpus", []),
        ("corpus", {"a": "b"}),
        ("method", "PUT"),
        ("api_key", "abc"),
        ("default_params", [1]),
        ("default_params", {"a": {"b": 1}}),
        ("default_params", {"a": math.nan}),
        ("default_params", {1: 2}),
        ("default_params", {"api_key": "abc"}),
        ("default_params", {"X-Subscription-Token": "abc"}),
        ("timeout", 0),
        ("timeout", math.nan),
        ("timeout", True),
        ("timeout", "20"),
        ("max_retries", -1),
        ("max_retries", 1.5),
        ("backoff_factor", -0.1),
        ("rate_limit_per_min", 0),
        ("max_snippet_chars", 0),
        ("max_snippet_chars", None),
    ],
)
def test_an_impossible_value_is_refused_by_the_name_of_its_key(key, value):
    with pytest.raises(UsageError, match=rf"tools\.search\.{key}") as refusal:
        SearchSettings.of({key: value})
    assert "abc" not in str(refusal.value)


def test_what_is_no_mapping_is_refused():
    with pytest.raises(UsageError, match=r"tools\.search must be a mapping of keys and values, not 'web'"):
        SearchSettings.of("web")  # type: ignore[arg-type]


def test_documents_of_its_own_are_not_for_a_search_of_the_web():
    with pytest.raises(UsageError, match=r"tools\.search\.corpus is searched in mode corpus only"):
        SearchSettings(mode="web", provider="tavily", corpus="notes")


def test_a_search_of_the_web_needs_a_provider():
    with pytest.raises(UsageError, match="provider is missing: tavily, serper, bing"):
        SearchSettings(mode="web")


def test_an_unknown_provider_needs_an_endpoint_and_may_be_a_slip():
    with pytest.raises(UsageError, match=r"unknown tools.search.provider 'tavilly' \(did you mean tavily\?\)"):
        SearchSettings(mode="web", provider="tavilly")
    with pytest.raises(UsageError, match=r"tools\.search: endpoint must begin with https"):
        SearchSettings(mode="web", provider="mine", endpoint="http://mine.example/")
    assert str(SearchSettings(mode="web", provider="mine", endpoint="https://mine.example/").address()).endswith("/")


@pytest.mark.parametrize("provider", SEARCH_BACKENDS)
def test_every_provider_has_a_safe_address_and_a_variable_for_its_key(provider):
    settings = SearchSettings(mode="web", provider=provider)
    assert settings.address().secure
    assert settings.backend().api_key_env == f"{provider.upper()}_API_KEY"


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
