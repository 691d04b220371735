import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.core.management import CommandError, call_command

from rl.demo.mailroom import TEAMS
from tests.commands.site import MANAGE, Site, kill_servers
from tests.export.llama_cpp.greedy import greedy_tokens
from tests.ports import reserve_port
from tests.waiting import until

pytestmark = pytest.mark.process


def quickstart(site: Site, *options: str) -> subprocess.CompletedProcess[str]:
    """Without the bootstrap: the packages of the running tests are the ones to use."""
    return subprocess.run(
        [sys.executable, "-m", "django", "quickstart", *options],
        cwd=MANAGE.parent,
        env=site.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1800,
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> tuple[Site, subprocess.CompletedProcess[str]]:
    """An empty installation after its first quickstart."""
    site = Site(tmp_path_factory.mktemp("quickstart") / "data")
    result = quickstart(site, "--no-serve", "--yes", "--json")
    assert result.returncode == 0, result.stderr
    return site, result


@pytest.mark.slow
def test_it_ends_with_a_model_that_learned_and_a_gguf_that_loads(done):
    document = json.loads(done[1].stdout)
    models = document["evaluation"]["models"]
    assert 0.45 <= models["base"]["accuracy"]["value"] <= 0.60
    assert models["new"]["accuracy"]["value"] > 0.85
    assert document["evaluation"]["verdict"] == "promote"
    assert len(greedy_tokens(Path(document["gguf"]), "Where is my parcel?", 4)) == 4


def test_its_steps_are_numbered_and_the_password_is_said_once(done):
    site, result = done
    password = json.loads(result.stdout)["admin"]["password"]
    for number in range(1, 8):
        assert f"[{number}]" in result.stderr
    assert len(password) >= 16
    assert result.stderr.count(password) == 1


def test_the_raters_of_the_demo_are_named_as_simulated(done):
    raters = {rater for (rater,) in done[0].query("SELECT DISTINCT rater FROM rl_feedback")}
    assert raters
    assert all(rater.startswith("simulated-") for rater in raters)


def test_no_held_out_prompt_was_trained_on(done):
    (folder,) = (done[0].data / "training_sets").iterdir()
    train, held_out = (
        {json.loads(line)["prompt_key"] for line in (folder / name).read_text().splitlines()}
        for name in ("train.jsonl", "heldout.jsonl")
    )
    assert len(train) > len(held_out) > 20
    assert train & held_out == set()


def test_a_second_run_trains_nothing_and_tells_no_password(done):
    site, first = done
    runs = site.query("SELECT COUNT(*) FROM rl_trainingrun")
    second = json.loads(quickstart(site, "--no-serve", "--yes", "--json").stdout)
    assert site.query("SELECT COUNT(*) FROM rl_trainingrun") == runs
    assert second["admin"]["password"] is None
    assert second["gguf"] == json.loads(first.stdout)["gguf"]
    assert {name for row in second["questions"] for name in row} <= {"prompt", "before", "after"}
    assert site.query("SELECT COUNT(*) FROM rl_trainingrun") == [(1,)]


@pytest.fixture(scope="module")
def sorted_mail(tmp_path_factory) -> Iterator[tuple[Site, dict[str, Any]]]:
    """The job of the demo, with the toy model."""
    site = Site(tmp_path_factory.mktemp("mailroom") / "data")
    result = quickstart(site, "--demo", "mailroom", "--no-serve", "--yes", "--json")
    try:
        assert result.returncode == 0, result.stderr
        yield site, json.loads(result.stdout)
    finally:
        kill_servers(site)


@pytest.mark.slow
def test_the_job_ends_with_the_messages_that_nobody_corrected_before_and_after(sorted_mail):
    site, document = sorted_mail
    right, questions = document["right"], document["questions"]
    assert [set(row) for row in questions] == [{"prompt", "before", "after"}] * 60
    assert (right["before"], right["of"]) == (0, 60)  # a toy that says what it likes names no team
    assert sum(sum(row.values()) for row in document["confusion"].values()) == 60
    assert {row["after"] for row in questions} <= set(TEAMS)  # it chooses
    assert site.query("SELECT COUNT(*), COUNT(DISTINCT trace_id) FROM rl_feedback") == [(40, 40)]


@pytest.mark.slow
def test_the_job_is_done_once(sorted_mail):
    site, first = sorted_mail
    traces = site.query("SELECT COUNT(*) FROM rl_trace")
    second = json.loads(quickstart(site, "--demo", "mailroom", "--no-serve", "--yes", "--json").stdout)
    assert {name: second[name] for name in ("right", "questions")} == {
        name: first[name] for name in ("right", "questions")
    }
    assert site.query("SELECT COUNT(*) FROM rl_trace") == traces == [(160,)]


def test_a_port_that_is_taken_is_said_before_anything_is_done(tmp_path):
    site = Site(tmp_path / "data")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = quickstart(site, "--yes", "--port", str(taken.getsockname()[1]))
    assert result.returncode == 2
    assert "choose another with --port" in result.stderr
    assert not (site.data / "db.sqlite3").exists()


@pytest.mark.parametrize("port", ["0", "65536", "-1", "8²"])
def test_a_number_of_no_port_is_refused(port):
    with pytest.raises(CommandError, match="is not a port: a number from 1 to 65535"):
        call_command("quickstart", "--yes", f"--port={port}")


def test_what_is_no_port_is_refused_before_anything_is_done(tmp_path):
    site = Site(tmp_path / "data")
    result = quickstart(site, "--yes", "--port=http")
    assert result.returncode == 2
    assert "is not a port: a number from 1 to 65535" in result.stderr
    assert not (site.data / "db.sqlite3").exists()


@pytest.mark.slow
def test_a_sigterm_ends_the_site_and_the_queue_too_and_what_they_said_is_no_part_of_the_document(done, tmp_path):
    site, printed = done[0], tmp_path / "printed"
    port = reserve_port()
    with printed.open("wb") as stdout:
        process = subprocess.Popen(
            [sys.executable, "-m", "django", "quickstart", "--yes", "--json", "--port", str(port)],
            cwd=MANAGE.parent,
            env=site.environment(),
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        until(lambda: _listens(port))
        process.terminate()
        assert process.wait(timeout=60) == 143
        until(lambda: not _listens(port))
        assert not [child for child in psutil.process_iter() if _session(child) == process.pid]
        assert "Ctrl+C" not in printed.read_text(encoding="utf-8")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _session(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid) if process.status() != psutil.STATUS_ZOMBIE else None
    except (ProcessLookupError, psutil.NoSuchProcess):
        return None
