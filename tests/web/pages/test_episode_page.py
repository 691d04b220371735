"""An episode, turn by turn, where traces are read."""

from dataclasses import replace

import pytest
from django.test import Client

from rl.base.records import Message, ToolCall
from rl.collect.traces.episodes import store_episodes
from rl.environments.episode import PlayedEpisode, Turn
from rl.models import Agent, Trace, TrainingRun
from rl.web.rating_items import CHARACTERS, Excerpt
from rl.web.trace_page import HEAD, SLACK, episode_context, fold
from tests.collect.made_episodes import ANSWERED, LOOKED, episode, trained
from tests.conftest import make_trace

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def run(agent: Agent) -> TrainingRun:
    return TrainingRun.objects.create(agent=agent, method="agent")


def stored(agent: Agent, record: PlayedEpisode, run: TrainingRun | None = None) -> Trace:
    store_episodes(agent, [record], run)
    return Trace.objects.select_related("episode").latest("created_at")


def shown(trace: Trace) -> dict:
    found = episode_context(trace, Excerpt())
    assert found is not None
    return found


def text_of(client: Client, trace: Trace) -> str:
    return client.get(f"/traces/{trace.pk}/").content.decode()


# --- turn by turn ------------------------------------------------------------------------------------------------------


def test_a_turn_has_its_words_and_its_calls_without_their_markup(agent):
    looked, answered = shown(stored(agent, episode()))["turns"]
    assert looked["said"] == [("I try it.", "", False)]
    [call] = looked["calls"]
    assert (call["name"], call["arguments"], call["duration_ms"]) == (
        "exec_code",
        [("code", ("print(3)", "", False))],
        12.5,
    )
    assert call["result"] == ("3\n", "", False)
    assert answered["said"] == [("print(3)", "", True)]
    assert answered["calls"] == []


def test_what_it_read_is_shown_where_it_is_not_just_the_results(agent):
    cut = replace(LOOKED, observation="3… (4000 more characters)")
    malformed = Turn("<tool_call>{oops</tool_call>", observation="the tool call cannot be read")
    turns = shown(stored(agent, episode(turns=(LOOKED, cut, malformed, ANSWERED))))["turns"]
    assert [turn["observation"] and turn["observation"].head for turn in turns] == [
        None,
        "3… (4000 more characters)",
        "the tool call cannot be read",
        None,
    ]
    assert turns[2]["said"][0].head == "<tool_call>{oops</tool_call>"


def test_a_failed_call_shows_its_error(agent):
    failed = ToolCall("search", {"query": "moon", "k": 3}, None, False, 3.0, "no such corpus")
    turn = Turn("<tool_call>{}</tool_call>", (failed,), "error: no such corpus")
    [seen, _] = shown(stored(agent, episode(turns=(turn, ANSWERED))))["turns"]
    assert (seen["observation"], seen["calls"][0]["error"].head) == (None, "no such corpus")
    assert {name: text.head for name, text in seen["calls"][0]["arguments"]} == {"query": "moon", "k": "3"}


def test_the_page_tells_the_whole_story(staff, agent, run):
    page = text_of(staff, stored(agent, trained(step=4, reward=0.0, success=False, reason="1 of 2 tests passed"), run))
    for words in ("Turn 1", "I try it.", "print(3)", "13 ms", "Turn 2", "not solved", "1 of 2 tests passed"):
        assert words in page
    assert f"/runs/{run.pk}/" in page
    assert "with 1 test<" in page
    assert "Conversation" not in page


def test_an_episode_that_its_environment_broke_is_not_called_failed(staff, agent):
    page = text_of(staff, stored(agent, episode(reward=None, success=False)))
    assert "the environment broke" in page
    assert "not solved" not in page


@pytest.mark.database
def test_a_rater_who_may_sees_it_too(staff, agent):
    stored(agent, episode())
    claim = staff.get("/rate/support-chat/labels/").context["items"][0]["claim"]
    assert "I try it." in staff.get(f"/rate/support-chat/labels/items/{claim}/").content.decode()


def test_other_tries_at_the_task_are_one_click_away(staff, agent, run):
    first = stored(agent, trained(step=1, success=False, reward=0.0), run)
    store_episodes(agent, [trained("other", step=1), replace(trained(), split="eval")], run)
    last = stored(agent, trained(step=9), run)
    page = text_of(staff, last)
    assert f'<a href="/traces/{first.pk}/">step 1, sample 0</a>' in page
    assert [(one.step, one.success) for one in shown(last)["tries"]] == [(9, True), (1, False)]


# --- strange and long --------------------------------------------------------------------------------------------------


def test_hostile_words_are_text(staff, agent):
    call = ToolCall(HOSTILE, {HOSTILE: HOSTILE}, HOSTILE, False, 1.0, HOSTILE)
    strange = episode(
        HOSTILE,
        turns=(Turn(HOSTILE, (call,), HOSTILE),),
        reason=HOSTILE,
        environment=HOSTILE,
        info={"x": HOSTILE},
        prompt=(Message(role="user", content=HOSTILE),),
        task={HOSTILE: HOSTILE, "tests": [{"input": HOSTILE, "output": HOSTILE}]},
    )
    page = text_of(staff, stored(agent, strange))
    assert HOSTILE not in page
    assert page.count("&lt;script&gt;") > 10


@pytest.mark.parametrize(
    "details",
    [
        {"episode": "pilot"},
        {"episode": {"turns": 3}},
        {"episode": {"turns": [None, 3]}},
        {"episode": {"turns": []}},
        {"episode": {"turns": [{"said": 3, "calls": [0, 7, "x"], "observation": {}}], "task": [1], "reward": "much"}},
    ],
)
def test_what_others_store_under_that_name_breaks_no_page(staff, agent, details):
    trace = make_trace(agent, details=details, tool_calls=[{"name": "x"}])
    assert staff.get(f"/traces/{trace.pk}/").status_code == 200


def test_long_texts_are_folded_at_a_line():
    text = "a line\n" * 500
    cut = fold(text)
    assert cut.head + cut.rest == text
    assert HEAD - SLACK < len(cut.head) <= HEAD
    assert cut.head.endswith("\n")
    assert len(fold("x" * 5000).head) == HEAD
    assert fold("x" * (HEAD + SLACK)).rest == ""


def test_very_long_ones_are_cut_until_somebody_asks_for_all(staff, agent):
    trace = stored(agent, episode(turns=(Turn("w" * (CHARACTERS + 1)), ANSWERED)))
    assert "show everything" in text_of(staff, trace)
    assert "show everything" not in staff.get(f"/traces/{trace.pk}/?whole").content.decode()


# --- in the list -------------------------------------------------------------------------------------------------------


def test_the_list_says_which_traces_are_episodes_and_how_they_ended(staff, agent, run):
    make_trace(agent)
    store_episodes(agent, [trained("sum"), trained("sort", reward=0.0, success=False)], run)
    page = staff.get("/traces/").content.decode()
    assert page.count("episode of") == 2
    assert "not solved" in page


@pytest.mark.database
@pytest.mark.parametrize(("label", "tasks"), [("solved", ["sum"]), ("unsolved", ["sort"])])
def test_episodes_are_found_by_how_they_ended(staff, agent, run, label, tasks):
    make_trace(agent)
    broke = trained("broke", reward=None, success=False)
    store_episodes(agent, [trained("sum"), trained("sort", reward=0.0, success=False), broke], run)
    for where in ("/traces/", "/traces/?agent=support-chat"):
        page = staff.get(where, {"agent": agent.name, "label": label} if "?" in where else {"label": label})
        assert [trace.episode.task_id for trace in page.context["shown"].traces] == tasks
