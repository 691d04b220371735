from __future__ import annotations

import math

import pytest

from rl.base.errors import UsageError
from rl.environments.tools.web_search.settings import SEARCH_BACKENDS, SearchSettings


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
