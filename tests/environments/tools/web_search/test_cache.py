from __future__ import annotations

import pytest

from rl.environments.tools.web_search.backend import SearchResult
from rl.environments.tools.web_search.tool import SearchCache

FOUND = [SearchResult("Tower", "https://tower.example/", "330 m — élevé")]


@pytest.fixture
def cache(tmp_path) -> SearchCache:
    return SearchCache(tmp_path / "searches")


def test_what_is_stored_is_found_again_and_nothing_else_lies_beside_it(cache):
    path = cache.path("tavily", "https://a.example/", "tower", {"max_results": 5})
    assert cache.read(path) is None
    cache.write(path, "tower", FOUND)
    assert cache.read(path) == FOUND
    assert list(cache.folder.iterdir()) == [path]


def test_that_nothing_was_found_is_stored_too(cache):
    path = cache.path("tavily", "https://a.example/", "tower", {})
    cache.write(path, "tower", [])
    assert cache.read(path) == []


def test_provider_address_query_and_parameters_tell_files_apart_and_their_order_does_not(cache):
    asked = [
        ("tavily", "https://a.example/", "tower", {}),
        ("serper", "https://a.example/", "tower", {}),
        ("tavily", "https://b.example/", "tower", {}),
        ("tavily", "https://a.example/", "river", {}),
        ("tavily", "https://a.example/", "tower", {"max_results": 5}),
    ]
    assert len({cache.path(*each) for each in asked}) == 5
    assert cache.path("x", "y", "z", {"a": 1, "b": 2}) == cache.path("x", "y", "z", {"b": 2, "a": 1})


@pytest.mark.parametrize(
    "damaged",
    [b"", b"{", b"[]", b"\xff", b'{"results": 3}', b'{"results": [{"title": "x"}]}', b"[" * 100_000]
    + [b'{"results": [{"title": 1, "url": "", "snippet": ""}]}', b'{"results": ["abc"]}'],
)
def test_a_damaged_file_counts_as_none(cache, damaged):
    cache.folder.mkdir()
    path = cache.path("x", "y", "z", {})
    path.write_bytes(damaged)
    assert cache.read(path) is None


def test_a_folder_that_cannot_be_written_is_only_logged(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    cache = SearchCache(tmp_path / "file" / "searches")
    cache.write(cache.path("x", "y", "z", {}), "z", FOUND)
    assert "could not be kept" in caplog.text
