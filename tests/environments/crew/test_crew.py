"""What every crew does, in this process and in several."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.demo.agent_tasks import CODE_TASKS, SEARCH_TASKS
from rl.environments.contract import Action, ToolRequest
from rl.environments.crew import Crew, Move, crew
from rl.environments.settings import EnvironmentSettings
from rl.environments.tasks import CodeTaskDataset, SearchTaskDataset

pytestmark = pytest.mark.process


WORLD = EnvironmentSettings("tests.environments.crew.worlds:World", {"max_turns": 5})
ANSWER = Action("in the box")


def does(*what: str) -> Action:
    return Action("", tuple(ToolRequest("act", {"what": each}) for each in what))


def all_moves(team: Crew, scripts: Sequence[Sequence[Action]]) -> list[list[Move]]:
    """Every episode to its end, by its script."""
    moves: list[list[Move]] = [[] for _ in scripts]
    going = dict(enumerate(scripts))
    while going:
        found = team.act({place: script[len(moves[place])] for place, script in going.items()})
        assert list(found) == list(going)
        for place, move in found.items():
            timeless = tuple(replace(call, duration_ms=None) for call in move.calls)
            moves[place].append(replace(move, calls=timeless))
            if move.done:
                del going[place]
    return moves


@pytest.fixture(params=[0, 2], ids=["here", "workers"])
def team(request: pytest.FixtureRequest):
    with crew(WORLD, request.param) as running:
        yield running


@pytest.mark.parametrize(
    ("kind", "tasks"),
    [
        ("code_exec", CodeTaskDataset.from_directory(CODE_TASKS, "eval").take(4)),
        ("search", SearchTaskDataset.from_directory(SEARCH_TASKS, "eval")),
    ],
    ids=["code", "search"],
)
def test_the_results_do_not_depend_on_the_number_of_workers(kind: str, tasks: Sequence[Any]):
    settings = EnvironmentSettings(kind)
    rows = [task.as_mapping() for task in tasks]
    scripts = [settings.build().demonstration(row) for row in rows]
    scripts[1] = [Action("no idea")]
    results = []
    for workers in (0, 3):
        with crew(settings, workers) as team:
            results.append((team.begin(rows), all_moves(team, scripts)))
    assert results[0] == results[1]
    openings, moves = results[0]
    assert [opening.tools[0]["function"]["name"] for opening in openings] == [
        "exec_code" if kind == "code_exec" else "search"
    ] * len(rows)
    assert [each[-1].reward for each in moves] == [1.0, moves[1][-1].reward] + [1.0] * (len(rows) - 2)
    assert [each[0].reward for each in moves if len(each) > 1] == [None] * (len(rows) - 1)


def test_an_episode_is_an_opening_and_moves(team: Crew):
    [opening] = team.begin([{"cat": "Felix"}])
    assert opening.messages[-1] == {"role": "user", "content": "Where is Felix?"}
    assert opening.tools[0]["function"]["name"] == "act"
    first = team.act({0: does("process")})[0]
    assert (first.done, first.reward, first.broken) == (False, None, "")
    assert first.calls[0].result == first.observation
    last = team.act({0: ANSWER})[0]
    assert (last.done, last.reward, last.observation, last.calls) == (True, 1.0, "", ())
    assert last.info["success"] is True


def test_episodes_end_one_by_one_and_places_stay(team: Crew):
    team.begin([{}, {}, {}])
    team.act({1: ANSWER})
    found = team.act({2: ANSWER, 0: does("process")})
    assert [(place, move.done) for place, move in found.items()] == [(2, True), (0, False)]
    with pytest.raises(UsageError, match="episode 1 is over"):
        team.act({0: ANSWER, 1: ANSWER})
    assert team.act({0: ANSWER})[0].reward == 1.0


def test_environments_are_kept_for_the_next_tasks_and_a_beginning_ends_what_went_on(team: Crew):
    team.begin([{}, {}])
    team.begin([{}])
    assert team.act({0: ANSWER})[0].info["episodes"] == 2
    with pytest.raises(UsageError, match="episode 1 is over, or never began"):
        team.act({1: ANSWER})


def test_what_breaks_in_the_beginning_is_that_episodes_end_alone(team: Crew):
    openings = team.begin([{"reset": "raise"}, {}, {"reset": "exit"}])
    assert [opening.broken.partition(" broke ")[2] for opening in openings] == [
        "when it began: ConnectionError: no answer",
        "",
        "when it began: SystemExit: 1",
    ]
    assert openings[0].messages == ()
    assert team.act({1: ANSWER})[1].reward == 1.0
    with pytest.raises(UsageError, match="episode 0 is over"):
        team.act({0: ANSWER})
    assert team.begin([{}])[0].broken == ""


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("raise", "in a step: ZeroDivisionError: division by zero"),
        ("nan", "in a step: ValueError: its reward is nan"),
        ("no json", "in a step: TypeError: Object of type set is not JSON serializable"),
        ("large", "in a step: ValueError: what came of it is larger than 16 MiB"),
    ],
)
def test_what_breaks_in_a_step_is_no_reward_and_the_others_go_on(team: Crew, answer: str, told: str):
    team.begin([{}, {}, {}])
    found = team.act({0: Action(answer), 1: ANSWER, 2: does("process")})
    assert (found[0].done, found[0].reward, found[0].calls) == (True, None, ())
    assert found[0].broken.endswith(told)
    assert (found[1].reward, found[2].done) == (1.0, False)
    assert team.act({2: ANSWER})[2].reward == 1.0


def test_a_tool_that_hangs_is_an_observation():
    for workers in (0, 1):
        settings = replace(WORLD, options={"tool_seconds": 0.2})
        with crew(settings, workers) as team:
            team.begin([{}])
            move = team.act({0: does("hang")})[0]
            assert (move.observation, move.done) == ("error: act did not answer within 0.2 seconds", False)
            assert team.act({0: ANSWER})[0].reward == 1.0


def test_what_an_environment_does_to_its_task_stays_there(team: Crew):
    task: Mapping[str, Any] = {"reset": "spoil"}
    [opening] = team.begin([task])
    assert opening.messages[-1]["content"] == "Where is spoiled?"
    assert task == {"reset": "spoil"}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (EnvironmentSettings("tests.environments.crew.worlds:Refusing"), "^there is no cat$"),
        (
            EnvironmentSettings("tests.environments.crew.worlds:Refusing", {"kind": "ValueError"}),
            "worlds:Refusing cannot be made: ValueError: a bad cat",
        ),
        (EnvironmentSettings("cat"), "unknown environment 'cat'"),
    ],
    ids=["own", "bug", "name"],
)
def test_settings_that_make_no_environment_are_refused(workers: int, settings: EnvironmentSettings, told: str):
    with crew(settings, workers) as team, pytest.raises(UsageError, match=told):
        team.begin([{}, {}, {}])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_cancel_ends_everything_and_is_passed_on(workers: int):
    beats = []

    def alive() -> None:
        beats.append(1)
        if len(beats) > 2:
            raise InterruptedError("cancelled")

    with crew(WORLD, workers, alive) as team:
        team.begin([{}])
        with pytest.raises(InterruptedError, match="cancelled"):
            all_moves(team, [[does("nap")] * 4])


def test_no_tasks_are_no_episodes(team: Crew):
    assert team.begin([]) == []
    assert team.act({}) == {}


def test_fewer_workers_than_none_are_refused():
    with pytest.raises(UsageError, match="must be 0 or more, not -1"):
        crew(WORLD, -1)
