from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rl.base.records import Message, ToolCall
from rl.collect.feedback.write import rate
from rl.collect.traces.episodes import CHUNK, store_episodes
from rl.demo.agent_tasks import CODE_TASKS
from rl.environments.code_exec import CodeExecEnv
from rl.environments.episode import PlayedEpisode, Turn
from rl.environments.rollout import run_episodes
from rl.environments.tasks import CodeTaskDataset
from rl.models import Agent, Episode, Feedback, Trace, TrainingRun
from tests.collect.made_episodes import ANSWERED, LOOKED, episode, trained


@pytest.fixture
def run(agent: Agent) -> TrainingRun:
    return TrainingRun.objects.create(agent=agent, method="agent")


def test_an_episode_is_a_trace_with_its_turns(agent, run):
    assert store_episodes(agent, [trained(step=3, sample=2)], run) == 1
    trace = Trace.objects.get()
    assert (trace.agent, trace.source, trace.session_id, trace.model_version) == (
        agent,
        "episode",
        f"run-{run.pk}",
        None,
    )
    assert [message["role"] for message in trace.prompt] == ["system", "user"]
    assert trace.response == "```python\nprint(3)\n```"
    assert trace.tool_calls[0]["arguments"] == {"code": "print(3)"}
    assert (trace.tokens_in, trace.tokens_out, trace.llm_calls, trace.duration_ms) == (40, 27, 2, 1250)
    kept = trace.details["episode"]
    assert kept["turns"] == [
        {"said": LOOKED.text, "calls": [0], "observation": "3\n"},
        {"said": ANSWERED.text, "calls": [], "observation": ""},
    ]
    assert (kept["reward"], kept["success"], kept["reason"]) == (1.0, True, "all 1 test passed")
    assert (kept["task"]["tests"], kept["info"], kept["environment"]) == (
        [{"input": "", "output": "3"}],
        {"passed": 1},
        "code_exec",
    )


@pytest.mark.database
def test_its_end_has_columns_of_its_own(agent, run):
    store_episodes(agent, [trained(step=3, sample=2, reward=-0.5, success=False, reason="no answer")], run)
    row = Episode.objects.get()
    assert (row.agent, row.trace, row.run) == (agent, Trace.objects.get(), run)
    assert (row.split, row.step, row.task_id, row.sample) == ("train", 3, "sum", 2)
    assert (row.reward, row.success, row.turns, row.reason) == (-0.5, False, 2, "no answer")
    assert str(row) == "sum#2@3"


def test_outside_of_a_run_episodes_have_no_session(agent):
    store_episodes(agent, [episode(), episode("other")])
    assert set(Trace.objects.values_list("session_id", flat=True)) == {""}


def test_an_agent_that_says_nothing_has_an_episode_too(agent, run):
    silent = trained(turns=(Turn(""),), success=False, reward=0.0)
    never_asked = trained(sample=1, turns=(), success=False, reward=None)
    assert store_episodes(agent, [silent, never_asked], run) == 2
    assert list(Trace.objects.values_list("response", flat=True)) == ["", ""]


@pytest.mark.process
@pytest.mark.parametrize("split", ["train", "eval"])
def test_what_the_environments_make_can_be_stored(agent, run, split):
    tasks = CodeTaskDataset.from_directory(CODE_TASKS, split)
    [made] = run_episodes(CodeExecEnv(), [tasks[0].as_mapping()], lambda chat, tools: "```python\nprint(1)\n```")
    store_episodes(agent, [PlayedEpisode.of_document(replace(made, split=split).as_document())], run)
    assert Trace.objects.get().details["episode"]["reason"] == made.reason


def test_the_same_episode_again_changes_nothing(agent, run):
    for _ in range(2):
        store_episodes(agent, [trained(), trained(sample=1)], run)
        store_episodes(agent, [episode()])
    assert Trace.objects.count() == Episode.objects.count() == 3


@pytest.mark.database
def test_a_step_that_is_done_again_replaces_its_episodes(agent, run):
    store_episodes(agent, [trained(step=1), trained(step=2), trained("other", step=2)], run)
    store_episodes(agent, [trained(step=2, turns=(Turn("print(4)"),), success=False, reward=0.0)], run)
    found = run.episodes.order_by("step", "task_id").values_list("step", "task_id", "success", "trace__response")
    assert list(found) == [
        (1, "sum", True, ANSWERED.text),
        (2, "other", True, ANSWERED.text),
        (2, "sum", False, "print(4)"),
    ]
    assert Trace.objects.count() == 3


@pytest.mark.database
def test_what_people_judged_outlives_its_place(agent, run):
    store_episodes(agent, [trained()], run)
    judged = Trace.objects.get()
    rate(judged, scale=Feedback.Scale.THUMB, value=1, rater="user:alice", source="test")
    store_episodes(agent, [trained(turns=(Turn("print(4)"),))], run)
    assert Trace.objects.filter(pk=judged.pk).exists()
    assert run.episodes.get().trace.response == "print(4)"


def test_of_two_in_one_place_the_later_one_counts(agent, run):
    assert store_episodes(agent, [trained(), trained(turns=(Turn("print(4)"),))], run) == 1
    assert run.episodes.get().trace.response == "print(4)"


def test_runs_and_splits_do_not_replace_each_other(agent, run):
    other = TrainingRun.objects.create(agent=agent, method="agent", state=TrainingRun.State.FAILED)
    store_episodes(agent, [trained(), replace(trained(), split="eval")], run)
    store_episodes(agent, [trained()], other)
    assert (run.episodes.count(), other.episodes.count(), Trace.objects.count()) == (2, 1, 3)


def test_without_its_run_the_trace_stays(agent, run):
    store_episodes(agent, [trained()], run)
    run.delete()
    assert (Episode.objects.count(), Trace.objects.count()) == (0, 1)


@pytest.mark.database
def test_without_its_trace_it_is_gone(agent, run):
    store_episodes(agent, [trained()], run)
    Trace.objects.all().delete()
    assert not Episode.objects.exists()


POISON = "a\x00b\ud800c"


@pytest.mark.database
def test_no_words_break_the_storing(agent, run):
    strange = trained(
        POISON * 100,
        task={"task_id": POISON, POISON: [float("nan"), 10**30, object(), {"deep": {"deeper": POISON}}]},
        prompt=(Message(role="user", content=POISON),),
        turns=(Turn(POISON, (ToolCall(POISON, {POISON: POISON}, POISON, False, float("inf"), POISON),), POISON),),
        reward=float("nan"),
        reason=POISON,
        info={POISON: POISON},
        tokens_in=10**20,
        environment=POISON,
    )
    store_episodes(agent, [strange], run)
    trace = Trace.objects.get()
    assert trace.response == "a\ufffdb\ufffdc"
    assert trace.tool_calls[0]["error"] == "a\ufffdb\ufffdc"
    assert trace.episode.reward is None
    assert len(trace.episode.task_id) == 200


@pytest.mark.database
def test_long_names_of_tasks_are_told_apart(agent, run):
    store_episodes(agent, [trained("x" * 300), trained("x" * 301)], run)
    assert run.episodes.values("task_id").distinct().count() == 2


def test_a_task_as_large_as_a_book_is_cut(agent, run):
    book = {"task_id": "sum", "documents": ["word " * 100_000] * 50}
    store_episodes(agent, [trained(task=book, turns=(Turn("said " * 100_000),))], run)
    trace = Trace.objects.get()
    assert len(trace.response) == 100_000
    assert len(str(trace.details["episode"]["task"])) < 50_000


def test_thousands_of_episodes_take_a_few_queries_a_batch(agent, run):
    some = (trained(f"t{i % 50}", step=i // 200, sample=i) for i in range(10 * CHUNK))
    with CaptureQueriesContext(connection) as asked:
        assert store_episodes(agent, some, run) == 10 * CHUNK
    assert len(asked) < 10 * 20
