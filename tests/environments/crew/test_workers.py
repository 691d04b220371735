"""Processes that die, hang and lie, and what is left of them."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from rl.environments.crew import Crew, crew
from tests.environments.crew.test_crew import ANSWER, WORLD, does
from tests.waiting import stand_still, until

pytestmark = pytest.mark.process


def workers() -> list[psutil.Process]:
    """That this process has started, also those that nobody has waited for."""
    return [child for child in psutil.Process().children() if "rl.environments.crew" in " ".join(_command(child))]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline() or ["rl.environments.crew: a zombie"]
    except psutil.Error:
        return []


def open_files() -> int:
    return psutil.Process().num_fds()


@pytest.fixture(autouse=True)
def _nothing_is_left():
    before = open_files()
    yield
    assert workers() == []
    assert open_files() <= before


@pytest.fixture
def team():
    with crew(WORLD, 3) as running:
        yield running


def processes(team: Crew, places: range) -> list[str]:
    moves = team.act({place: does("process") for place in places})
    return [moves[place].observation for place in places]


def test_places_are_dealt_to_the_workers_in_turn(team: Crew):
    team.begin([{}] * 7)
    found = processes(team, range(7))
    assert len(set(found)) == 3 == len(workers())
    assert found[:3] == found[3:6]
    assert found[6] == found[0]


def test_slow_tools_overlap(team: Crew):
    team.begin([{}] * 3)
    naps = [json.loads(move.observation) for move in team.act({place: does("nap") for place in range(3)}).values()]
    assert max(began for began, _ in naps) < min(ended for _, ended in naps)


@pytest.mark.parametrize(("how", "told"), [("kill", "signal 9"), ("leave", "exit code 3")])
def test_a_worker_that_dies_takes_only_its_own_episodes_along(team: Crew, how: str, told: str):
    team.begin([{}] * 6)
    before = processes(team, range(6))
    moves = team.act({0: does(how), 1: does("process"), 2: ANSWER, 4: does("process")})
    broken = f"the worker that ran it died ({told})"
    assert (moves[0].broken, moves[0].done, moves[0].reward) == (broken, True, None)
    assert [moves[place].observation for place in (1, 4)] == [before[1], before[4]]
    assert moves[2].reward == 1.0
    last = team.act({3: ANSWER, 1: ANSWER})
    assert (last[3].broken, last[1].reward) == (broken, 1.0)
    team.begin([{}] * 6)
    after = processes(team, range(6))
    assert after[0] != before[0]
    assert after[1:3] == before[1:3]


def test_what_was_done_before_the_death_counts(team: Crew):
    team.begin([{}] * 6)
    moves = team.act({0: ANSWER, 3: does("leave")})
    assert (moves[0].reward, moves[0].broken) == (1.0, "")
    assert moves[3].broken == "the worker that ran it died (exit code 3)"


def test_a_death_in_the_beginning_breaks_the_openings_of_that_worker(team: Crew):
    openings = team.begin([{}, {"reset": "leave"}, {}, {}, {}])
    broken = "the worker that ran it died (exit code 5)"
    assert [opening.broken for opening in openings] == ["", broken, "", "", broken]
    assert [move.reward for move in team.act({0: ANSWER, 2: ANSWER, 3: ANSWER}).values()] == [1.0] * 3


def test_a_worker_that_is_killed_while_it_has_nothing_to_do_is_replaced(team: Crew):
    team.begin([{}] * 3)
    victim = workers()[0]
    victim.kill()
    os.waitid(os.P_PID, victim.pid, os.WEXITED | os.WNOWAIT)
    assert [opening.broken for opening in team.begin([{}] * 3)] == [""] * 3


def test_a_death_is_seen_though_a_forked_child_holds_the_pipes(tmp_path: Path):
    with crew(replace(WORLD, options={"folder": str(tmp_path)}), 1) as team:
        team.begin([{}])
        assert team.act({0: does("fork_and_leave")})[0].broken == "the worker that ran it died (exit code 4)"
    assert (tmp_path / "forked").exists()


def test_a_worker_that_hangs_is_stopped():
    with crew(WORLD, 2, silence_seconds=1.0) as team:
        team.begin([{}] * 4)
        moves = team.act({0: replace(ANSWER, text="hang"), 1: ANSWER, 2: ANSWER})
        told = "the worker that ran it did not answer within 1 seconds and was stopped"
        assert [moves[place].broken for place in range(3)] == [told, "", told]
        assert len(workers()) == 1
        assert team.act({3: ANSWER})[3].reward == 1.0


def test_a_worker_that_is_only_stopped_does_not_block(team: Crew):
    beats: list[float] = []
    with crew(WORLD, 1, lambda: beats.append(time.monotonic()), silence_seconds=1.5) as frozen:
        frozen.begin([{}])
        [process] = workers()
        stand_still(process)
        opening = frozen.begin([{"cat": "x" * 2**21}])[0]
        assert "did not answer within 1.5 seconds" in opening.broken
    assert max(later - earlier for earlier, later in zip(beats, beats[1:], strict=False)) < 1.2


def test_what_tools_print_and_read_is_not_the_protocol(team: Crew, capfd: pytest.CaptureFixture[str]):
    team.begin([{}, {}])
    moves = team.act({0: does("noise"), 1: does("read_input")})
    assert moves[0].observation == "noise"
    assert moves[1].observation == "read ''"
    assert team.act({0: ANSWER})[0].reward == 1.0
    team.close()
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "noise\n" in printed.err
    assert "more noise\n" in printed.err


def test_a_worker_knows_neither_torch_nor_django(team: Crew):
    team.begin([{}])
    assert team.act({0: does("modules")})[0].observation == "modules"


def test_large_tasks_and_results_pass():
    with crew(WORLD, 2) as team:
        openings = team.begin([{"cat": "é" * 2**20}] * 4)
        assert {len(opening.messages[-1]["content"]) for opening in openings} == {2**20 + len("Where is ?")}


def test_what_tools_have_started_ends_with_the_worker(team: Crew):
    team.begin([{}])
    sleeper = psutil.Process(int(team.act({0: does("spawn")})[0].observation))
    team.close()
    assert until(lambda: not sleeper.is_running() or sleeper.status() == psutil.STATUS_ZOMBIE)


def test_closing_twice_is_nothing_and_a_closed_crew_can_begin_again(team: Crew):
    team.begin([{}])
    team.close()
    team.close()
    assert workers() == []
    team.begin([{}])
    assert team.act({0: ANSWER})[0].reward == 1.0


def test_a_refusal_leaves_no_process():
    team = crew(replace(WORLD, options={"max_turns": 0}), 2)
    with pytest.raises(Exception, match="max_turns must be 1 or more"):
        team.begin([{}, {}])
    assert workers() == []


PARENT = """
import sys, time
sys.path[:] = {path!r}
from rl.environments.crew import crew
from tests.environments.crew.test_crew import WORLD, does
team = crew(WORLD, 3)
team.begin([{{}}] * 3)
print(*[move.observation for move in team.act({{place: does("process") for place in range(3)}}).values()], flush=True)
if {busy}:
    team.act({{0: does("spawn", "hang")}})
time.sleep(60)
"""


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_workers_end_with_a_parent_that_is_killed(busy: bool):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(path=sys.path, busy=busy)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout
    children = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
    assert len(children) == 3
    if busy:
        assert until(lambda: any(child.children() for child in children))
        children += [each for child in children for each in child.children()]
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert until(lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children))
