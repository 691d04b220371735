import json
import signal
import threading
from pathlib import Path

import pytest

from rl.collect import TraceCollector
from tests.collect.capture.conftest import run_once
from tests.collect.capture.programs import run, start
from tests.waiting import until


def test_a_folder_that_cannot_be_written_is_said_once_and_the_agent_goes_on(collectors, tmp_path: Path, warnings):
    (tmp_path / "file").write_text("no folder")
    collector = collectors(data_dir=tmp_path / "file")
    for _ in range(3):
        assert run_once(collector)
    assert collector.flush()
    assert collector.counts["lost"] == 3
    assert [text for text in warnings() if "cannot be written" in text] == [
        f"traces cannot be written to {tmp_path / 'file' / 'rl_traces'}: Not a directory"
    ]


@pytest.mark.process
def test_a_full_disk_leaves_no_half_file_and_later_traces_are_written(tmp_path: Path):
    result = run(
        """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        collector = TraceCollector(data_dir=os.environ["DATA"])
        def record(text):
            collector.start_trace(text)
            collector.finish_trace(text)
            collector.flush()
        record("before")
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        record("too large " * 1000)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        record("after")
        print(collector.counts)
        """,
        DATA=str(tmp_path),
    )
    assert "'written': 2" in result.stdout
    assert "'lost': 1" in result.stdout
    assert "traces cannot be written" in result.stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(json.loads(path.read_text())["user_query"] for path in files) == ["after", "before"]


@pytest.mark.process
def test_a_process_that_is_killed_while_it_writes_leaves_only_whole_files(tmp_path: Path):
    process = start(
        """
        collector = TraceCollector(data_dir=os.environ["DATA"], capacity=50)
        print("ready", flush=True)
        while True:
            collector.start_trace("q" * 90_000)
            collector.finish_trace("a" * 90_000)
            time.sleep(0.0005)
        """,
        DATA=str(tmp_path),
    )
    assert process.stdout is not None
    process.stdout.readline()
    until(lambda: len(list(tmp_path.rglob("*.json"))) >= 20)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    files = list(tmp_path.rglob("*.json"))
    assert len(files) >= 20
    for path in files:
        assert len(json.loads(path.read_text())["final_response"]) == 90_000


@pytest.mark.process
def test_what_a_program_recorded_is_there_when_it_has_ended(tmp_path: Path):
    run(
        """
        collector = TraceCollector(data_dir=os.environ["DATA"])
        for number in range(100):
            collector.start_trace(str(number))
            collector.finish_trace("a")
        """,
        DATA=str(tmp_path),
    )
    assert len(list(tmp_path.rglob("*.json"))) == 100


@pytest.mark.process
def test_a_forked_process_records_on_and_delivers_nothing_twice(tmp_path: Path):
    run(
        """
        collector = TraceCollector(data_dir=os.environ["DATA"])
        def record(text):
            collector.start_trace(text)
            collector.finish_trace("a")
        record("parent")
        collector.start_trace("goes on in both")
        child = os.fork()
        before = collector.counts["written"]  # in the child: what the parent's thread had written at the fork
        record("child" if not child else "parent again")
        collector.finish_trace("child" if not child else "parent")
        if not child:
            collector.close()
            os._exit(0 if collector.counts["written"] - before == 2 else 1)
        assert os.waitpid(child, 0)[1] == 0
        collector.close()
        assert collector.counts["written"] == 3, collector.counts
        """,
        DATA=str(tmp_path),
    )
    found = [json.loads(path.read_text())["user_query"] for path in tmp_path.rglob("*.json")]
    assert sorted(found) == ["child", "goes on in both", "parent", "parent again"]


def test_no_thread_is_started_before_there_is_something_to_do(collector: TraceCollector):
    before = set(threading.enumerate())
    assert collector.flush()
    collector.start_trace("q")
    assert not set(threading.enumerate()) - before
    collector.finish_trace("a")
    assert len(set(threading.enumerate()) - before) == 1


def test_after_closing_nothing_is_taken_and_that_is_counted(collector: TraceCollector):
    run_once(collector)
    assert collector.close()
    assert run_once(collector)
    assert (collector.counts["written"], collector.counts["lost"]) == (1, 1)
    assert collector.close()
