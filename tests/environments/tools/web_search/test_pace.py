import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from rl.environments.tools.web_search import tool
from rl.environments.tools.web_search.backend import SearchResult
from rl.environments.tools.web_search.tool import SearchCache


@pytest.fixture
def clock(monkeypatch):
    """Of the limiter, in seconds."""
    now = [1000.0]
    monkeypatch.setattr(tool.time, "time", lambda: now[0])
    return now


def test_requests_within_the_limit_do_not_wait_and_the_next_waits_for_the_minute(tmp_path, clock, pauses):
    for _ in range(3):
        tool.take_turn(tmp_path, "a.example", 3)
    assert pauses == []
    clock[0] += 20
    tool.take_turn(tmp_path, "a.example", 3)
    assert pauses == [40.0]


def test_a_minute_later_the_limit_is_whole_again(tmp_path, clock, pauses):
    for _ in range(3):
        tool.take_turn(tmp_path, "a.example", 3)
    clock[0] += 60
    for _ in range(3):
        tool.take_turn(tmp_path, "a.example", 3)
    assert pauses == []


def test_threads_share_the_limit_and_hosts_do_not(tmp_path, clock, pauses):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: tool.take_turn(tmp_path, "a.example", 2), range(8)))
    assert sorted(pauses) == [60.0, 60.0, 120.0, 120.0, 180.0, 180.0]
    tool.take_turn(tmp_path, "b.example", 2)
    assert len(pauses) == 6


@pytest.mark.process
def test_processes_that_share_the_folder_share_the_limit(tmp_path, pauses):
    take = "import sys; from pathlib import Path; from rl.environments.tools.web_search import tool; "
    take += "tool.pause = print; tool.take_turn(Path(sys.argv[1]), 'a.example', 1)"
    started = [subprocess.Popen([sys.executable, "-c", take, tmp_path], stdout=subprocess.PIPE) for _ in range(3)]
    waits = sorted(float(process.communicate()[0]) for process in started)
    tool.take_turn(tmp_path, "a.example", 1)
    assert [round(wait, -1) for wait in (*waits, *pauses)] == [0, 60, 120, 180]


@pytest.mark.parametrize("content", ["", "[1", "[" * 100_000, "3", '["x", null, NaN, 1e400]', "[999999999.0]"])
def test_a_damaged_file_or_one_of_another_clock_counts_as_none(tmp_path, clock, pauses, content):
    (tmp_path / ".a.example.turns").write_text(content)
    tool.take_turn(tmp_path, "a.example", 1)
    tool.take_turn(tmp_path, "a.example", 1)
    assert pauses == [60.0]


def test_where_nothing_can_be_written_the_process_keeps_to_the_limit_alone(tmp_path, clock, pauses, caplog):
    (tmp_path / "file").touch()
    for _ in range(2):
        tool.take_turn(tmp_path / "file", "a.example", 1)
    assert pauses == [60.0]
    assert "every process counts for itself" in caplog.text


def test_without_a_limit_nothing_waits(tmp_path, clock, pauses):
    for _ in range(100):
        tool.take_turn(tmp_path, "a.example", None)
    assert pauses == []


def test_each_wait_is_twice_the_one_before_up_to_the_longest():
    waits = [tool.wait_before_retry(number, 0.8, "") for number in (1, 2, 3, 20)]
    assert waits == [0.8, 1.6, 3.2, tool.LONGEST_WAIT]


def test_retry_after_is_heeded_in_both_its_forms():
    assert tool.wait_before_retry(1, 0.8, "7") == 7
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 90 < tool.wait_before_retry(1, 0.8, moment) <= 100


@pytest.mark.parametrize("header", ["soon", "-5", "1e3", "Wed, 99 Foo 2020", "Wed, 21 Oct 2015 07:28:00 GMT", "9" * 40])
def test_a_retry_after_that_says_nothing_counts_for_nothing(header):
    assert tool.wait_before_retry(1, 0.8, header) == 0.8


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
