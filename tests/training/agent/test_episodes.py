"""Episodes of a policy that says what a script has for it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import pytest

from rl.environments.contract import Action, ToolRequest
from rl.environments.crew import crew
from rl.environments.settings import EnvironmentSettings
from rl.lm.chat.format import ChatFormat
from rl.lm.lengths import TokenLimits
from rl.training.agent.episodes import WorldStage
from tests.training.chatting import tokenizer

pytestmark = pytest.mark.learn


WORLD = EnvironmentSettings("tests.environments.crew.worlds:World", {"max_turns": 4, "failure_penalty": -0.5})
LOOK, ANSWER = Action("", (ToolRequest("act", {"what": "process"}),)), Action("It is in the box.")
KEPT = 40
"""Tokens that are kept free for a turn."""


class Script:
    """Whose lines come in turn, each with log-probabilities or without."""

    def __init__(self, stage: Any, lines: Sequence[Sequence[Action | str]], scored: bool = False) -> None:
        self.asked: list[list[int]] = []
        self._stage, self._lines, self._scored = stage, lines, scored

    def __call__(self, plays: Sequence[Any]) -> list[list[int]]:
        self.asked.append([play.number for play in plays])
        turns = [self._ids(self._lines[play.number][len(play.turns)]) for play in plays]
        for play, ids in zip(plays, turns, strict=True):
            play.log_probs += [-1.0] * len(ids) if self._scored else []
        return turns

    def _ids(self, line: Action | str) -> list[int]:
        """Of a text without its end: it was cut."""
        if isinstance(line, str):
            return list(tokenizer("qwen2_5")(line, add_special_tokens=False)["input_ids"])
        ids: list[int] = self._stage.chat.turn_ids(line)
        return ids


@pytest.fixture
def stage() -> Iterator[Any]:
    with stage_with(4096) as ready:
        yield ready


@contextmanager
def stage_with(most: int) -> Iterator[Any]:
    with crew(WORLD, 0) as world:
        yield WorldStage(world, ChatFormat(tokenizer("qwen2_5")), TokenLimits(most, 8192, KEPT), -0.5)


def task(number: int = 0, **more: Any) -> dict[str, Any]:
    return {"task_id": f"t{number}", "cat": "Felix", **more}


def decode(ids: Sequence[int]) -> str:
    return str(tokenizer("qwen2_5").decode(ids, skip_special_tokens=False))


def parts(play: Any) -> list[tuple[int, str]]:
    """Who spoke, and what."""
    marked = zip(play.own, play.ids, strict=True)
    return [(own, decode([token for _, token in part])) for own, part in groupby(marked, key=lambda pair: pair[0])]


def test_only_what_the_policy_said_is_its_own(stage: Any):
    [play] = stage.play([task()], Script(stage, [[LOOK, ANSWER]]))
    called, observed, answered = parts(play)
    assert [called[0], observed[0], answered[0]] == [1, 0, 1]
    assert called[1].startswith("<tool_call>")
    assert called[1].endswith("<|im_end|>")
    assert play.turns[0].observation in observed[1]
    assert "<tool_response>" in observed[1]
    assert answered[1] == "It is in the box.<|im_end|>"
    assert decode(play.prompt_ids).endswith("Where is Felix?<|im_end|>\n<|im_start|>assistant\n")


def test_an_episode_is_what_the_chat_template_writes_of_the_whole_conversation(stage: Any):
    [play] = stage.play([task()], Script(stage, [[LOOK, ANSWER]]))
    call = {"name": "act", "arguments": {"what": "process"}}
    messages = [
        *play.opening.messages,
        {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": call}]},
        {"role": "tool", "content": play.turns[0].observation},
        {"role": "assistant", "content": "It is in the box."},
    ]
    whole = tokenizer("qwen2_5").apply_chat_template(messages, tools=list(play.opening.tools), tokenize=False)
    assert decode(play.context) == whole.removesuffix("\n")


def test_nobody_is_asked_after_the_end_of_its_episode(stage: Any):
    script = Script(stage, [[ANSWER], [LOOK, LOOK, ANSWER], [LOOK, ANSWER]])
    plays = stage.play([task(number) for number in range(3)], script)
    assert script.asked == [[0, 1, 2], [1, 2], [1]]
    assert [len(play.turns) for play in plays] == [1, 3, 2]
    assert [play.reward for play in plays] == [1.0] * 3
    assert all(play.done and play.seconds >= 0 for play in plays)


def test_the_episode_tells_what_happened(stage: Any):
    [play] = stage.play([task(7)], Script(stage, [[LOOK, Action("Gone.")]]))
    episode = play.episode("world", split="train", step=3, sample=2)
    assert (episode.task_id, episode.environment, episode.split, episode.step, episode.sample) == (
        "t7",
        "world",
        "train",
        3,
        2,
    )
    assert (episode.reward, episode.success, episode.reason) == (-0.5, False, "it looked")
    assert [call.tool_name for call in episode.tool_calls] == ["act"]
    assert [turn.text for turn in episode.turns][1] == episode.answer == "Gone."
    assert [turn.tokens for turn in episode.turns] == [len(part) for part in own_parts(play)]
    assert episode.tokens_in == len(play.prompt_ids)
    assert episode.prompt == play.opening.messages
    assert episode.info["episodes"] == 1


def own_parts(play: Any) -> list[list[int]]:
    marked = groupby(zip(play.own, play.ids, strict=True), key=lambda pair: pair[0])
    return [[token for _, token in part] for own, part in marked if own]


def test_a_call_that_cannot_be_read_is_told_to_the_policy_which_goes_on(stage: Any):
    [play] = stage.play([task()], Script(stage, [["<tool_call>{broken", ANSWER]]))
    assert "tool_call" in play.turns[0].observation
    assert play.turns[0].calls == ()
    assert play.success
    assert parts(play)[1][1].startswith("<|im_end|>\n"), "what was cut is ended by the observation, not by the policy"


def test_what_the_environment_said_last_is_taken_back_where_no_room_is_left_for_a_turn(stage: Any):
    script = [[LOOK, ANSWER]]
    [free] = stage.play([task()], Script(stage, script))
    first = len(own_parts(free)[0])
    with stage_with(len(free.prompt_ids) + first + KEPT + 3) as tight:
        [play] = tight.play([task()], Script(tight, script, scored=True))
    assert play.reason.startswith("no room for another turn in ")
    assert (play.reward, play.success) == (-0.5, False)
    assert play.own == [1] * first
    assert len(play.ids) == len(play.own) == len(play.log_probs)
    assert play.turns[0].observation, "people still see it"


def test_a_prompt_that_leaves_no_room_ends_its_episode_before_the_first_turn(stage: Any):
    long = task(1, cat="Felix " * 2000)
    plays = stage.play([task(0), long], Script(stage, [[ANSWER], []]))
    assert [play.success for play in plays] == [True, False]
    assert (plays[1].reward, plays[1].ids, plays[1].turns) == (-0.5, [], [])


def test_a_world_that_breaks_ends_its_episode_without_a_reward_and_no_other(stage: Any):
    lines = [[LOOK, ANSWER], [], [Action("raise")]]
    plays = stage.play([task(0), task(1, reset="raise"), task(2)], Script(stage, lines))
    assert [play.reward for play in plays] == [1.0, None, None]
    assert [play.success for play in plays] == [True, False, False]
    assert "broke when it began: ConnectionError: no answer" in plays[1].reason
    assert "broke in a step: ZeroDivisionError" in plays[2].reason
    assert [len(play.turns) for play in plays] == [2, 0, 1]
    assert plays[1].episode("world").reward is None


@pytest.mark.parametrize("scored", [True, False])
def test_log_probabilities_are_as_long_as_the_tokens_where_there_are_any(stage: Any, scored: bool):
    [play] = stage.play([task()], Script(stage, [[LOOK, LOOK, ANSWER]], scored))
    if scored:
        assert play.log_probs == [-1.0 if own else 0.0 for own in play.own]
    else:
        assert play.log_probs == []


def test_an_episode_that_never_answers_ends_with_the_last_turn(stage: Any):
    [play] = stage.play([task()], Script(stage, [[LOOK] * 4]))
    assert (len(play.turns), play.reason) == (4, "no answer within 4 turns")
    assert play.own[-1] == 1
    assert play.turns[-1].observation == ""
