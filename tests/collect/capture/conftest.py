import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rl.collect import ExecutionTrace, TraceCollector
from rl.collect.capture import sender
from tests.collect.capture.ratchet_double import RatchetDouble, ratchet_double

KEY = "sk_only-for-tests"


@pytest.fixture
def collectors() -> Iterator[Callable[..., TraceCollector]]:
    """Makes collectors that are closed after the test."""
    made: list[TraceCollector] = []

    def make(**settings: Any) -> TraceCollector:
        made.append(TraceCollector(**settings))
        return made[-1]

    yield make
    for collector in made:
        collector.close(0.2)


@pytest.fixture
def collector(tmp_path: Path, collectors: Callable[..., TraceCollector]) -> TraceCollector:
    return collectors(data_dir=tmp_path)


@pytest.fixture
def double() -> Iterator[RatchetDouble]:
    with ratchet_double() as double:
        yield double


@pytest.fixture
def sending(
    double: RatchetDouble, collectors: Callable[..., TraceCollector], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., TraceCollector]:
    """Makes collectors that send to the double, and wait 10 ms where they would wait half a second."""
    monkeypatch.setattr(sender, "FIRST_WAIT", 0.01)
    return lambda **more: collectors(**{"api_url": double.url, "api_key": KEY, "agent": "support-chat", **more})


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, "rl.collect.capture")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "rl.collect.capture"]


def traces(collector: TraceCollector) -> list[ExecutionTrace]:
    """All that was written, in the order in which it began."""
    assert collector.flush(20)
    return sorted(collector.get_unlabeled_traces(100_000), key=lambda trace: trace.timestamp)


def only(collector: TraceCollector) -> ExecutionTrace:
    [trace] = traces(collector)
    return trace


def run_once(collector: TraceCollector, query: str = "Where is my parcel?", answer: str = "On its way.") -> str:
    """Records one run; returns its id."""
    run = collector.start_trace(query)
    assert run is not None
    collector.record_tool_call("track", {"parcel": 7}, "Bonn", duration_ms=3.5)
    collector.record_llm_call(12, 5, 0.25)
    collector.finish_trace(answer)
    return run.trace_id
