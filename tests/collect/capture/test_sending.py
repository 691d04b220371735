import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rl.collect import TraceCollector
from rl.collect.capture import sender
from tests.collect.capture.conftest import KEY, run_once
from tests.collect.capture.programs import run
from tests.collect.capture.ratchet_double import RatchetDouble, problem
from tests.waiting import until

pytestmark = pytest.mark.process


Sending = Callable[..., TraceCollector]


def queries(double: RatchetDouble) -> list[str]:
    return sorted(item["prompt"][0]["content"] for item in double.stored.values())


def outbox(folder: Path) -> list[str]:
    files = (folder / "rl_outbox").glob("*")
    return sorted(json.loads(path.read_text())["prompt"][0]["content"] for path in files)


def test_what_is_sent(double: RatchetDouble, sending: Sending):
    collector = sending()
    trace_id = run_once(collector)
    assert collector.flush()
    [item] = double.stored.values()
    assert (double.paths, double.authorizations) == ({"/api/v1/traces/"}, {f"Bearer {KEY}"})
    assert (item["agent"], item["external_id"], item["session_id"]) == ("support-chat", trace_id, "default")
    assert item["prompt"] == [{"role": "user", "content": "Where is my parcel?"}]
    assert (item["response"], item["tokens_in"], item["tokens_out"], item["llm_calls"], item["cost"]) == (
        "On its way.",
        12,
        5,
        1,
        0.25,
    )
    assert item["tool_calls"][0]["arguments"] == {"parcel": 7}
    assert collector.counts == {"written": 0, "sent": 1, "refused": 0, "kept": 0, "lost": 0, "waiting": 0}


def test_task_events_are_sent_in_their_order(double: RatchetDouble, sending: Sending):
    collector = sending()
    collector.start_trace("q")
    collector.record_task("created", "t1")
    collector.record_task("created", "t2")
    collector.record_task("failed", "t1", error="lost")
    collector.record_task("completed", "t2", result="found")
    collector.finish_trace("a")
    assert collector.flush()
    [item] = double.stored.values()
    assert [(task["task_id"], task["status"]) for task in item["tasks"]] == [
        ("t1", "created"),
        ("t2", "created"),
        ("t1", "failed"),
        ("t2", "completed"),
    ]


def test_many_are_sent_in_few_batches(double: RatchetDouble, sending: Sending):
    collector = sending()
    for number in range(250):
        run_once(collector, f"q{number}")
    assert collector.flush()
    assert len(double.stored) == 250
    assert max(map(len, double.batches)) <= 100
    assert len(double.batches) < 50


def test_large_traces_are_sent_in_smaller_batches(double: RatchetDouble, sending: Sending):
    double.next_replies(problem(503, "not yet"))  # until all are in the queue
    collector = sending()
    for number in range(30):
        run_once(collector, f"q{number}", "a" * 100_000)
    assert collector.flush()
    assert len(double.stored) == 30
    assert max(len(json.dumps(batch)) for batch in double.batches) < 1.2 * 1024 * 1024


def test_a_run_that_is_larger_than_a_server_takes_is_sent_with_shorter_values(
    double: RatchetDouble, sending: Sending, tmp_path: Path
):
    collector = sending(data_dir=tmp_path)
    collector.start_trace("q")
    for _ in range(200):
        collector.record_tool_call("write", {f"part{n}": "x" * 2000 for n in range(9)}, "ok")
    collector.finish_trace("done")
    assert collector.flush()
    [item] = double.stored.values()
    assert len(json.dumps(item)) < 2 * 1024 * 1024
    assert {len(call["arguments"]) for call in item["tool_calls"]} == {1001}
    assert {call["result"] for call in item["tool_calls"]} == {"ok"}
    assert len(collector.get_unlabeled_traces()[0].tool_calls[0].arguments) == 9


@pytest.mark.parametrize(
    "replies",
    [
        [problem(500, "broken")],
        [problem(502, "proxy"), problem(503, "overload")],
        [problem(429, "slow down", Retry_After="0")],
        [problem(409, "somebody else")],
        [(200, b"<html>Sign in to the hotel's network</html>", {})],
        [(207, b'{"results": [', {})],
        [(207, {"results": []}, {})],
        [(207, {"results": [{"status": "?"}]}, {})],
        [(207, {"results": [{"status": 503, "problem": {"detail": "locked"}}]}, {})],
    ],
)
def test_what_passes_is_tried_again_until_each_is_stored_once(double: RatchetDouble, sending: Sending, replies: Any):
    double.next_replies(*replies)
    collector = sending()
    run_once(collector)
    assert collector.flush()
    assert queries(double) == ["Where is my parcel?"]
    assert len(double.batches) == len(replies) + 1
    assert (collector.counts["sent"], collector.counts["lost"]) == (1, 0)


def test_a_reply_that_is_lost_does_not_store_twice(double: RatchetDouble, sending: Sending):
    def stored_but_unheard(items: list[dict[str, Any]]) -> Any:
        for item in items:
            double.stored[item["external_id"]] = item
        return (502, b"gateway timeout", {})

    double.script.append(stored_but_unheard)
    collector = sending()
    run_once(collector)
    assert collector.flush()
    assert (len(double.batches), len(double.stored), collector.counts["sent"]) == (2, 1, 1)


def test_retry_after_is_kept(double: RatchetDouble, sending: Sending):
    double.next_replies(problem(429, "more than 600 requests", Retry_After="1"))
    collector = sending()
    run_once(collector)
    started = time.monotonic()
    until(lambda: double.stored)
    assert time.monotonic() - started > 0.9


def test_a_server_that_is_down_and_comes_up(sending: Sending, double: RatchetDouble, tmp_path: Path, warnings):
    port = double.port
    double.stop()
    collector = sending(data_dir=tmp_path)
    for number in range(20):
        run_once(collector, f"q{number:02}")
    assert not collector.flush(0.2)
    double.start(port)
    assert collector.flush(20)
    assert queries(double) == [f"q{number:02}" for number in range(20)]
    assert sum(map(len, double.batches)) == 20
    said = " | ".join(warnings())
    assert said.count("trying again") == 1
    assert "takes traces again" in said


def test_one_trace_that_the_server_refuses_does_not_hold_the_others(double: RatchetDouble, sending: Sending, warnings):
    """The whole list is refused because of one, as for a body that cannot be parsed, or is too large."""

    def picky(items: list[dict[str, Any]]) -> Any:
        if any(item["response"] == "bad" for item in items):
            return problem(400, "the document contains a NUL character")
        return None

    double.script += [picky] * 100
    collector = sending()
    for number in range(40):
        run_once(collector, f"q{number}", "bad" if number == 23 else "good")
    assert collector.flush(20)
    assert len(double.stored) == 39
    assert (collector.counts["sent"], collector.counts["refused"]) == (39, 1)
    assert [text for text in warnings() if "NUL" in text] == [text for text in warnings() if "refuses trace" in text]


def test_items_that_are_refused_are_told_with_the_problems_text(double: RatchetDouble, sending: Sending, warnings):
    refusal = {"status": 400, "problem": {"title": "Bad Request", "detail": "cost: must not be negative"}}
    double.next_replies((207, {"results": [refusal]}, {}))
    collector = sending()
    run_once(collector)
    assert collector.flush()
    assert (len(double.batches), collector.counts["refused"]) == (1, 1)
    assert "cost: must not be negative" in warnings()[0]


@pytest.mark.parametrize("status", [413, 500])
def test_a_single_trace_at_fault_is_given_up(double: RatchetDouble, sending: Sending, status: int):
    double.next_replies(*[problem(status, "broken by this")] * 10)
    collector = sending()
    run_once(collector)
    assert collector.flush(20)
    assert len(double.batches) == (1 if status == 413 else sender.MOST_TRIES)
    assert collector.counts["refused"] == 1


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (problem(401, "this key is unknown or revoked"), "this key is unknown or revoked"),
        (problem(403, "not with this key"), "not with this key"),
        ((404, b"<html>not here</html>", {}), "status 404"),
        ((301, b"", {"Location": "https://elsewhere.example/"}), "redirects to 'https://elsewhere.example/'"),
    ],
)
def test_a_wrong_key_or_address_is_told_and_nothing_is_lost(
    double: RatchetDouble, sending: Sending, tmp_path: Path, warnings, reply: Any, words: str
):
    double.next_replies(reply)
    collector = sending(data_dir=tmp_path)
    run_once(collector, "first")
    assert collector.flush()
    assert (len(double.batches), double.stored) == (1, {})
    assert outbox(tmp_path) == ["first"]
    [said] = warnings()
    assert words in said
    assert KEY not in said
    collector.close()

    collector = sending(data_dir=tmp_path)  # the next process, with the right key
    run_once(collector, "second")
    assert collector.flush()
    assert queries(double) == ["first", "second"]
    assert outbox(tmp_path) == []


def test_an_agent_that_does_not_exist_yet(double: RatchetDouble, sending: Sending, tmp_path: Path, warnings):
    unknown = {"status": 404, "problem": {"detail": "no agent is named 'support-chat'; create it"}}
    double.next_replies((207, {"results": [unknown]}, {}))
    collector = sending(data_dir=tmp_path)
    run_once(collector)
    assert collector.flush()
    assert "no agent is named 'support-chat'; create it" in warnings()[0]
    assert len(outbox(tmp_path)) == 1


def test_without_a_folder_what_cannot_be_sent_is_lost_and_counted(double: RatchetDouble, sending: Sending, warnings):
    double.next_replies(problem(401, "unknown key"))
    collector = sending()
    run_once(collector)
    assert collector.flush()
    assert (collector.counts["lost"], collector.counts["kept"]) == (1, 0)
    assert "traces that could not be delivered and are lost: 1" in warnings()


def test_what_does_not_fit_waits_on_disk_and_is_sent_when_the_server_is_back(
    double: RatchetDouble, sending: Sending, tmp_path: Path
):
    port = double.port
    double.stop()
    collector = sending(data_dir=tmp_path, capacity=10)
    for number in range(60):
        run_once(collector, f"q{number:02}")
        # the disk's queue is as small
        until(lambda number=number: len(list(tmp_path.glob("rl_traces/*/[!.]*"))) > number, every=0.001)
    assert not collector.flush(0.3)
    waiting = outbox(tmp_path)
    assert 40 <= len(waiting) <= 50
    double.start(port)
    assert collector.flush(20)
    assert queries(double) == [f"q{number:02}" for number in range(60)]
    assert outbox(tmp_path) == []
    assert collector.counts["lost"] == 0


def test_what_does_not_fit_and_has_no_disk_is_lost_and_counted(double: RatchetDouble, sending: Sending):
    double.stop()
    collector = sending(capacity=10)
    for number in range(60):
        run_once(collector, f"q{number}")
    assert not collector.flush(0.05)
    assert collector.counts["lost"] >= 40  # ten wait, and up to ten are at work
    double.start()


def test_a_hung_server_does_not_hold_the_agent(double: RatchetDouble, sending: Sending, tmp_path: Path):
    double.hang.set()
    collector = sending(data_dir=tmp_path)
    for number in range(100):
        run_once(collector, f"q{number}")
    assert not collector.flush(0.3)
    until(lambda: collector.counts["written"] == 100)  # the files do not wait for the server
    assert not collector.close(0.3)
    assert len(outbox(tmp_path)) == 100


def test_a_server_that_never_accepts(collectors, tmp_path: Path):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # without listen: refuses; a full backlog would drop
        collector = collectors(
            api_url=f"http://127.0.0.1:{deaf.getsockname()[1]}", api_key=KEY, agent="a", data_dir=tmp_path, timeout=0.2
        )
        run_once(collector)
        assert not collector.close(0.5)
    assert len(outbox(tmp_path)) == 1


PROGRAM = """
collector = TraceCollector(
    api_url=os.environ["SITE"], api_key="sk_x", agent="support-chat", data_dir=os.environ.get("DATA"), exit_timeout=1
)
collector.start_trace(os.environ["QUERY"])
collector.finish_trace("a")
"""


def test_the_end_of_a_program_sends_what_it_has_within_its_deadline(double: RatchetDouble, tmp_path: Path):
    run(PROGRAM, SITE=double.url, QUERY="one")
    assert queries(double) == ["one"]
    double.hang.set()
    run(PROGRAM, SITE=double.url, QUERY="two", DATA=str(tmp_path))
    assert outbox(tmp_path) == ["two"]
    double.hang.clear()
    run(PROGRAM, SITE=double.url, QUERY="three", DATA=str(tmp_path))
    assert queries(double) == ["one", "three", "two"]
    assert outbox(tmp_path) == []


def test_rubbish_in_the_outbox_is_not_sent_for_ever(double: RatchetDouble, sending: Sending, tmp_path: Path):
    (tmp_path / "rl_outbox").mkdir()
    (tmp_path / "rl_outbox" / "torn.json").write_text('{"agent": "support-ch')
    collector = sending(data_dir=tmp_path)
    run_once(collector)
    assert collector.flush()
    assert queries(double) == ["Where is my parcel?"]
    assert list((tmp_path / "rl_outbox").iterdir()) == []
