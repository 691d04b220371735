from __future__ import annotations

import pytest

from rl.environments.tools.search import DocumentIndex, SearchDocuments

CITIES = [
    "Bonn is a city on the Rhine.",
    "Paris is a city on the Seine.",
    "The Rhine rises in Switzerland, " + "far " * 300,
]


def test_the_best_passages_come_first_and_long_ones_are_cut():
    found = SearchDocuments(CITIES, most_results=2, most_characters=100).run("Which city is on the Rhine?")
    first, second = found.splitlines()
    assert first == "[1] Bonn is a city on the Rhine."
    assert len(second) <= 104


def test_other_documents_take_the_place_of_its_own_until_there_are_none():
    tool = SearchDocuments(CITIES[:1])
    tool.use(["Rome is a city on the Tiber."])
    assert tool.run("city") == "[1] Rome is a city on the Tiber."
    tool.use([])
    assert tool.run("city") == "[1] Bonn is a city on the Rhine."


@pytest.mark.parametrize("query", ['" OR 1', "NEAR(", "a AND NOT b*", "text:city", "';--", "()"])
def test_a_query_is_words_and_never_syntax(query: str):
    assert SearchDocuments(["nothing of it"]).run(query).startswith(("nothing found", "[1]"))


def test_a_query_without_words_or_hits_says_so():
    assert SearchDocuments(CITIES).run("?!") == "nothing found: the query has no words"
    assert SearchDocuments(CITIES).run("Tokyo") == "nothing found"
    assert SearchDocuments().run("Bonn") == "nothing found"


def test_several_tools_share_one_index():
    index = DocumentIndex(CITIES)
    first, second = SearchDocuments(index), SearchDocuments(index, most_characters=4)
    first.use(["Rome is a city on the Tiber."])
    assert second.run("Bonn") == "[1] Bonn"
    assert first.run("Bonn") == "nothing found"
