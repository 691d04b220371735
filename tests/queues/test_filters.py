from __future__ import annotations

from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.collect.feedback import write
from rl.models import Agent, Trace
from rl.queues.filters import read_filters
from tests.admin.records import make_version
from tests.conftest import make_trace


@pytest.fixture
def traces(agent: Agent) -> dict[str, Trace]:
    made = {
        "plain": make_trace(agent, "Où est le café?", "Là-bas."),
        "v2": make_trace(agent, model_version=make_version(agent, "v2"), source="gateway", details={"natural": True}),
    }
    write.rate(made["v2"], rater="x", scale="thumb", value=1, tags=["trop long é", "wrong"], source="test")
    return made


@pytest.mark.database
@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, {"plain", "v2"}),
        ({"search": "Où est"}, {"plain"}),
        ({"search": "ON ITS WAY"}, {"v2"}),
        ({"search": "100%"}, set()),
        ({"versions": ["base"]}, {"plain"}),
        ({"versions": ["v2", "base"]}, {"plain", "v2"}),
        ({"sources": ["gateway"]}, {"v2"}),
        ({"tags": ["trop long é", "other"]}, {"v2"}),
        ({"tags": ["rong"]}, set()),
        ({"rated": True}, {"v2"}),
        ({"rated": False}, {"plain"}),
        ({"from": "2020-01-01", "to": "2100-01-01"}, {"plain", "v2"}),
        ({"to": "2020-01-01"}, set()),
        ({"details": {"natural": True}}, {"v2"}),
        ({"rated": True, "versions": ["base"]}, set()),
    ],
)
def test_filters_choose_traces(traces: dict[str, Trace], filters: dict[str, Any], names: set[str]) -> None:
    chosen = set(Trace.objects.filter(read_filters(filters).condition()))
    assert chosen == {traces[name] for name in names}


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ([], "an object is wanted"),
        ({"serach": "x"}, "did you mean search"),
        ({"search": ""}, "filters.search: a text"),
        ({"search": "\0"}, "NUL"),
        ({"versions": "v2"}, "filters.versions: a list"),
        ({"rated": "no"}, "filters.rated: true or false"),
        ({"from": "2026-13-01"}, "filters.from: a date"),
        ({"from": "2026-02-01", "to": "2026-01-01"}, "later than to"),
        ({"details": {"a__b": 1}}, "not the name of a detail"),
        ({"details": {"a": None}}, "filters.details.a"),
    ],
)
def test_what_is_not_a_filter_is_refused_in_words(filters: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_filters(filters)
