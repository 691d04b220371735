from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.base.records import Message
from rl.environments.contract import Action, ToolRequest
from rl.environments.episode import PlayedEpisode
from rl.environments.replay import SHORT, ReplayEnv, judge_by_accepted
from rl.environments.rollout import run_episode
from rl.environments.settings import EnvironmentSettings

ASKED = [{"role": "system", "content": "You look."}, {"role": "user", "content": "What is there?"}]
SUM = {"task_id": "sum", "prompt": "Print 3.", "tests": [{"input": "", "output": "3"}]}
NO_TOOL = {"tool_name": "leap", "arguments": {}, "success": False, "error": "there is no tool 'leap'"}


def recorded(result: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_name": "look", "arguments": arguments, "result": result, "success": True, "error": ""}


def task(**fields: Any) -> dict[str, Any]:
    calls = [recorded("a purple elephant", page=1), recorded("it left", page=1), NO_TOOL]
    return {"task_id": "t", "prompt": ASKED, "recorded": calls, "accepted": ["An elephant"], **fields}


def look(**arguments: Any) -> Action:
    return Action("", (ToolRequest("look", arguments),))


@pytest.fixture
def env() -> ReplayEnv:
    return ReplayEnv(max_turns=4, failure_penalty=-0.5)


# --- what the agent reads ----------------------------------------------------------------------------------------------


def test_it_begins_with_the_recorded_prompt_and_tools_made_from_the_calls(env):
    assert env.reset(task()) == ASKED
    [schema] = env.tools.schemas
    assert schema["function"]["name"] == "look"
    assert schema["function"]["parameters"]["required"] == ["page"]


def test_tools_of_the_task_are_used_as_they_are(env):
    schema = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    env.reset(task(tools=[schema]))
    assert env.tools.schemas == [schema]


def test_instructions_of_the_settings_take_the_place_of_those_recorded():
    chat = ReplayEnv(system_prompt="Look well.").reset(task())
    assert chat == [Message(role="system", content="Look well."), ASKED[1]]


def test_recorded_results_and_errors_are_what_it_reads(env):
    env.reset(task())
    assert env.step(look(page=1.0)).observation == "a purple elephant"
    assert env.step(Action("", (*look(page=1).calls, ToolRequest("leap")))).observation == (
        "it left\n\nerror: there is no tool 'leap'"
    )
    assert [each.success for each in env.calls] == [True, True, False]


def test_every_episode_begins_at_the_first_result(env):
    for _ in range(2):
        env.reset(task())
        assert env.step(look(page=1)).observation == "a purple elephant"


def test_a_malformed_call_is_told_as_anywhere(env):
    env.reset(task())
    assert env.step(Action("", error="no JSON")).observation == "no JSON"


# --- how it ends -------------------------------------------------------------------------------------------------------


def test_a_call_that_was_never_recorded_ends_the_episode_and_says_so(env):
    env.reset(task())
    env.step(look(page=1))
    step = env.step(look(page=2))
    assert (step.done, step.reward, env.get_reward(), step.info["success"]) == (True, -0.5, -0.5, False)
    assert step.info["reason"] == "look(...) with these arguments was never recorded"
    assert step.info["never_recorded"] == {"tool_name": "look", "arguments": {"page": 2}}
    assert [each.error for each in env.calls] == ["", "look(...) with these arguments was never recorded"]


def test_too_many_turns_end_it_as_anywhere(env):
    env.reset(task())
    steps = [env.step(look(page=1)) for _ in range(4)]
    assert (steps[-1].info["reason"], steps[-1].reward) == ("no answer within 4 turns", -0.5)


def test_accepted_answers_judge_where_there_is_no_environment(env):
    env.reset(task())
    assert env.step(Action("an  ELEPHANT.")).reward == 1.0
    env.reset(task())
    assert env.step(Action("nothing")).info["reason"] == "the answer is none of those that were accepted"


@pytest.mark.process
@pytest.mark.parametrize(("program", "passes"), [("print(3)", True), ("print(4)", False)])
def test_the_environment_that_the_task_came_from_judges_where_there_is_one(env, program, passes):
    own = task(environment="code_exec", task=SUM, options={"test_timeout": 2.0})
    del own["accepted"]
    env.reset(own)
    step = env.step(Action(f"```python\n{program}\n```"))
    assert (step.info["success"], step.info["tests"]) == (passes, 1)


def test_a_judge_is_asked_about_each_task_in_turn(env):
    for expected in ("Bonn", "Rome"):
        env.reset(task(environment="search", task={"task_id": "q", "question": "Where?", "answer": expected}))
        assert env.step(Action("It is Rome.")).info["success"] is (expected == "Rome")


# --- accepted answers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "accepted", "right"),
    [
        ("Page  12.", "page 12", True),
        ("You find it on page 12, below.", "Page 12.", True),
        ("You find it on page 121.", "page 12", False),
        ("I know not", "no", False),
        ("", "no", False),
        ("no", "...", False),
        ("x " * SHORT, "x " * SHORT, True),
        ("He says: " + "x " * SHORT, "x " * SHORT, False),
    ],
)
def test_an_answer_is_right_when_it_says_an_accepted_one(answer, accepted, right):
    assert judge_by_accepted(answer, ["something else entirely", accepted]).success is right


# --- demonstrations ----------------------------------------------------------------------------------------------------


def test_a_recorded_solution_is_a_demonstration_that_earns_the_reward(env):
    turn = [{"tool_name": "look", "arguments": '{"page": 1}'}]
    own = task(solution=[turn, "An elephant"])
    script = list(env.demonstration(own))
    assert script == [look(page=1), Action("An elephant")]
    env.reset(own)
    assert [env.step(action).reward for action in script] == [0.0, 1.0]
    assert env.demonstration(task()) == ()


# --- as other environments ---------------------------------------------------------------------------------------------


def test_it_is_made_from_settings_and_its_episodes_name_it():
    env = EnvironmentSettings("replay", {"max_turns": 2}).check().build()
    episode = run_episode(env, task(), lambda chat, tools: "An elephant")
    assert (episode.environment, episode.success) == ("replay", True)
    assert PlayedEpisode.of_document(episode.as_document()) == episode


def test_it_takes_no_tools_of_the_settings():
    with pytest.raises(UsageError, match="the tools of replay come with its tasks: leave out tools"):
        EnvironmentSettings("replay", tools={"search": {"mode": "corpus"}}).check()


@pytest.mark.process
def test_a_recorded_call_earns_the_reward_where_calls_count(env):
    call = {"tool_name": "exec_code", "arguments": {"code": "print(3)"}, "result": "3", "success": True}
    own = {"environment": "code_exec", "task": SUM, "options": {"reward_on": "tool_call"}}
    env.reset({"task_id": "t", "prompt": ASKED, "recorded": [call], **own})
    step = env.step(Action("", (ToolRequest("exec_code", {"code": "print(3)"}),)))
    assert (step.reward, step.done, step.info["reason"]) == (1.0, True, "all 1 tests passed")
