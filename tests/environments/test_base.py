from collections.abc import Mapping
from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.environments.base import LONGEST_OBSERVATION, AgentEnv
from rl.environments.contract import Action, Judgement, ToolRequest
from rl.environments.tools import BaseTool, ToolFailed


class Look(BaseTool):
    name = "look"

    def run(self, where: str) -> str:
        """Looks somewhere."""
        if where == "nowhere":
            raise ToolFailed("there is nothing", timed_out=True)
        return where * 1000 if where == "everywhere" else f"a cat in the {where}"


class FindTheCat(AgentEnv):
    system_prompt = "Find the cat."

    def prompt(self, task: Mapping[str, Any]) -> str:
        return f"Where is {task['cat']}?"

    def judge(self, answer: str) -> Judgement:
        return Judgement("box" in answer, f"it said {answer}", details={"cat": self.task["cat"]})


def environment(**settings: Any) -> FindTheCat:
    return FindTheCat((Look(),), failure_penalty=-0.2, timeout_penalty=-0.5, max_turns=3, **settings)


def looking(*places: str) -> Action:
    return Action("", tuple(ToolRequest("look", {"where": place}) for place in places))


def test_an_episode_is_a_question_some_looks_and_an_answer():
    cats = environment()
    assert cats.reset({"cat": "Tom"}) == [
        {"role": "system", "content": "Find the cat."},
        {"role": "user", "content": "Where is Tom?"},
    ]
    first = cats.step(looking("box", "hall"))
    both = ("a cat in the box", "a cat in the hall")
    assert first == ("\n\n".join(both), 0.0, False, {"turn": 1, "tool_calls": 2}, both)
    assert first.messages == both
    last = cats.step(Action("in the box"))
    assert (last.reward, last.done, cats.get_reward()) == (1.0, True, 1.0)
    assert last.info == {
        "turn": 2,
        "tool_calls": 2,
        "success": True,
        "reason": "it said in the box",
        "timed_out": False,
        "cat": "Tom",
    }


def test_every_call_is_recorded_with_what_came_of_it():
    cats = environment()
    cats.reset({"cat": "Tom"})
    step = cats.step(looking("box", "nowhere"))
    assert step.observation == "a cat in the box\n\nerror: there is nothing"
    good, bad = cats.calls
    assert (good.tool_name, good.arguments, good.result, good.success) == (
        "look",
        {"where": "box"},
        "a cat in the box",
        True,
    )
    assert (bad.success, bad.error, bad.result) == (False, "there is nothing", None)
    assert (good.duration_ms or 0) >= 0


def test_an_episode_that_runs_out_of_turns_has_the_penalty_of_running_out():
    cats = environment()
    cats.reset({"cat": "Tom"})
    steps = [cats.step(looking("hall")) for _ in range(3)]
    assert [step.done for step in steps] == [False, False, True]
    assert steps[-1].reward == cats.get_reward() == -0.5
    assert steps[-1].info["timed_out"]
    assert steps[-1].info["reason"] == "no answer within 3 turns"


def test_without_a_penalty_of_its_own_running_out_is_a_failure_as_any_other():
    cats = FindTheCat((Look(),), failure_penalty=-0.2, max_turns=1, system_prompt="")
    assert len(cats.reset({"cat": "Tom"})) == 1
    assert cats.step(looking("hall")).reward == -0.2


def test_a_wrong_answer_may_leave_the_episode_open():
    cats = environment(wrong_answer_ends=False)
    cats.reset({"cat": "Tom"})
    assert cats.step(Action("in the hall")) == (cats.after_wrong_answer, 0.0, False, {"turn": 1, "tool_calls": 0}, ())
    assert cats.step(Action("in the box")).reward == 1.0


def test_a_malformed_call_costs_a_turn_and_is_told():
    cats = environment()
    cats.reset({"cat": "Tom"})
    assert cats.step(Action("", error="cannot be read")) == (
        "cannot be read",
        0.0,
        False,
        {"turn": 1, "tool_calls": 0},
        (),
    )


def test_long_observations_are_cut_and_the_record_is_not():
    cats = environment()
    cats.reset({"cat": "Tom"})
    observation = cats.step(looking("everywhere")).observation
    assert observation[LONGEST_OBSERVATION:] == "… (6000 more characters)"
    assert len(cats.calls[0].result) == 10_000


def test_nothing_of_an_episode_is_left_in_the_next():
    cats = environment()
    cats.reset({"cat": "Tom"})
    cats.step(looking("nowhere"))
    cats.step(Action("in the box"))
    with pytest.raises(UsageError, match="the episode has ended"):
        cats.step(Action("again"))
    cats.reset({"cat": "Felix"})
    assert (cats.calls, cats.get_reward()) == ([], 0.0)
    last = cats.step(Action("in the hall"))
    assert (last.reward, last.info["cat"], last.info["timed_out"]) == (-0.2, "Felix", False)


def test_at_least_one_turn_is_needed():
    with pytest.raises(UsageError, match="max_turns must be 1 or more"):
        FindTheCat(max_turns=0)
