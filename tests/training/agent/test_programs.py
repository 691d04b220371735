"""Conversations of programs with a policy that says what a script has for it, token by token."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from rl.environments.contract import Action, ToolRequest
from rl.environments.crew import crew
from rl.environments.settings import EnvironmentSettings
from tests.environments.program.agents import ASK
from tests.training.chatting import tokenizer

pytestmark = pytest.mark.learn


EXAMPLES = Path(__file__).resolve().parents[3] / "docs/examples"
Line = Action | str
SUM = Action("", (ToolRequest("add", {"a": 2, "b": 3}),))
TASK = {"task_id": "t", "prompt": "Bread for 2 and milk for 3.", "answer": "5"}


class Script:
    """The next line for whoever asks; a text without its end is an answer that was cut."""

    def __init__(self, stage: Any, lines: Sequence[Line]) -> None:
        self._stage, self._lines, self.batches = stage, list(lines), []

    def __call__(self, plays: Sequence[Any]) -> list[list[int]]:
        self.batches.append(len(plays))
        return [self._ids(self._lines.pop(0)) for _ in plays]

    def _ids(self, line: Line) -> list[int]:
        if isinstance(line, str):
            return list(tokenizer("qwen2_5")(line, add_special_tokens=False)["input_ids"])
        ids: list[int] = self._stage.chat.turn_ids(line)
        return ids


@contextmanager
def stage_of(command: Sequence[str], most: int = 4096, template: str = "qwen2_5", **options: Any):
    from rl.lm.chat.format import ChatFormat
    from rl.lm.lengths import Limits
    from rl.training.agent.programs import ProgramStage

    settings = EnvironmentSettings("program", {"command": list(command), **options})
    with crew(settings, 0) as programs:
        yield ProgramStage(programs, ChatFormat(tokenizer(template)), Limits(most, 8192, 40))


def play(code: str, *lines: Line, **options: Any) -> Any:
    with stage_of([sys.executable, "-c", ASK + code], **options) as stage:
        [played] = stage.play([TASK], Script(stage, lines))
        return played


def decode(ids: Sequence[int]) -> str:
    return str(tokenizer("qwen2_5").decode(ids, skip_special_tokens=False))


def parts(conversation: Any) -> list[tuple[int, str]]:
    """Who spoke, and what."""
    marked = zip(conversation.own, conversation.ids, strict=True)
    return [(own, decode([token for _, token in part])) for own, part in groupby(marked, key=lambda pair: pair[0])]


def own(conversation: Any) -> list[str]:
    return [text for is_own, text in parts(conversation) if is_own]


def check_the_till(played: Any) -> None:
    assert (played.success, played.reason) == (True, "the answer contains what was expected")
    [conversation] = played.conversations
    called, heard, answered = parts(conversation)
    assert called == (1, '<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n</tool_call><|im_end|>')
    assert heard[0] == 0
    assert "<tool_response>\n5\n</tool_response>" in heard[1]
    assert answered == (1, "The sum is 5.<|im_end|>")
    assert played.opening.messages[0] == {"role": "system", "content": "Add up with the tool. Answer with the sum."}
    assert played.opening.tools[0]["function"]["name"] == "add"
    first, last = played.turns
    assert (first.calls[0].tool_name, first.calls[0].result, first.observation) == ("add", "5", "5")
    assert (last.text, played.info["output"]) == ("The sum is 5.", "The sum is 5.\n")


def test_a_tool_loop_on_openais_client_is_one_conversation():
    with stage_of([sys.executable, str(EXAMPLES / "openai_agent.py")], reward="answer") as stage:
        [played] = stage.play([TASK], Script(stage, [SUM, Action("The sum is 5.")]))
    check_the_till(played)


@pytest.mark.slow
def test_a_graph_of_langgraph_is_one_conversation():
    pytest.importorskip("langgraph")
    pytest.importorskip("langchain_openai")
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(EXAMPLES / "langgraph_agent.py")]
    with stage_of(command, reward="answer", env=paths) as stage:
        [played] = stage.play([TASK], Script(stage, [SUM, Action("The sum is 5.")]))
    check_the_till(played)


def test_a_conversation_is_what_the_chat_template_writes_of_it():
    with stage_of([sys.executable, str(EXAMPLES / "openai_agent.py")]) as stage:
        [played] = stage.play([TASK], Script(stage, [SUM, Action("The sum is 5.")]))
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": 3}}}
    messages = [
        *played.opening.messages,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "5"},
        {"role": "assistant", "content": "The sum is 5."},
    ]
    tools = list(played.opening.tools)
    whole = tokenizer("qwen2_5").apply_chat_template(messages, tools=tools, tokenize=False)
    assert decode(played.conversations[0].context) == whole.removesuffix("\n")


STREAM = """
from openai import OpenAI
stream = OpenAI().chat.completions.create(
    model="m", messages=[user("2 and 3?")], stream=True, stream_options={"include_usage": True}, tools=[{"type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "number"}}}}}])
chunks = list(stream)
deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
calls = [call.function for delta in deltas for call in delta.tool_calls or ()]
print(calls[0].name, calls[0].arguments, chunks[-1].usage.completion_tokens > 5)
"""


def test_openais_client_reads_a_stream():
    played = play(STREAM, SUM)
    assert played.info["output"] == 'add {"a": 2, "b": 3} True\n'


DIALOGUE = """
chat = [user("One?")]
chat.append(ask(chat)["message"])
chat.append(user("Two?"))
chat.append(ask(chat)["message"])
print(chat[-1]["content"])
"""


def test_a_user_who_goes_on_is_heard_and_what_was_said_stays_as_it_was():
    played = play(DIALOGUE, Action("First."), Action("Second."))
    [conversation] = played.conversations
    assert parts(conversation) == [
        (1, "First.<|im_end|>"),
        (0, "\n<|im_start|>user\nTwo?<|im_end|>\n<|im_start|>assistant\n"),
        (1, "Second.<|im_end|>"),
    ]


def test_an_answer_that_was_cut_is_ended_before_the_user_goes_on():
    [conversation] = play(DIALOGUE, "Firs", Action("Second.")).conversations
    assert parts(conversation)[1][1].startswith("<|im_end|>\n<|im_start|>user")


def test_another_chat_is_another_conversation():
    code = 'ask([user("One?")]); ask([user("Two?")])'
    played = play(code, Action("First."), Action("Second."))
    assert [own(conversation) for conversation in played.conversations] == [["First.<|im_end|>"], ["Second.<|im_end|>"]]
    assert [turn.text for turn in played.turns] == ["First.", "Second."]
    assert played.info["conversations"] == 2


def test_a_chat_that_is_rewritten_is_another_conversation():
    code = DIALOGUE.replace('chat.append(user("Two?"))', 'chat[0] = user("Zero?"); chat.append(user("Two?"))')
    first, second = play(code, Action("First."), Action("Second.")).conversations
    assert (own(first), own(second)) == (["First.<|im_end|>"], ["Second.<|im_end|>"])
    assert "Zero?<|im_end|>\n<|im_start|>assistant\nFirst.<|im_end|>\n<|im_start|>user\nTwo?" in decode(
        second.prompt_ids
    )


def test_a_chat_that_branches_is_learned_from_once():
    code = """
chat = [user("One?")]
chat.append(ask(chat)["message"])
ask([*chat, user("Left?")]), ask([*chat, user("Right?")])
"""
    trunk, branch = play(code, Action("First."), Action("Left."), Action("Right.")).conversations
    assert own(trunk) == ["First.<|im_end|>", "Left.<|im_end|>"]
    assert own(branch) == ["Right.<|im_end|>"]
    shared = [*trunk.prompt_ids, *trunk.ids[: trunk.own.index(0)]]
    assert branch.prompt_ids[: len(shared)] == shared


def test_what_a_program_asks_at_the_same_time_is_answered_together():
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(2) as pool:
    list(pool.map(lambda text: ask([user(text)]), ["One?", "Two?"]))
"""
    played = play(code, Action("First."), Action("Second."))
    assert len(played.conversations) == 2


def test_the_fewest_tokens_to_a_stop_are_kept_and_the_program_reads_none_of_it():
    code = 'print(ask([user("?")], stop=["END"])["message"]["content"])'
    played = play(code, Action("Yes. END and more"))
    assert played.info["output"] == "Yes. \n"
    assert own(played.conversations[0])[0].startswith("Yes. END")
    assert "more" not in own(played.conversations[0])[0]


def test_no_more_tokens_are_learned_from_than_the_program_asked_for():
    code = 'answer = ask([user("?")], max_tokens=3); print(answer["finish_reason"])'
    played = play(code, Action("one two three four five six seven"))
    assert sum(played.conversations[0].own) == 3
    assert played.info["output"] == "length\n"


def test_a_call_that_cannot_be_read_is_text():
    code = 'print(ask([user("?")], tools=[{"type": "function", "function": {"name": "f"}}])["message"])'
    played = play(code, "<tool_call>{nonsense</tool_call>")
    assert "'content': '<tool_call>{nonsense</tool_call>'" in played.info["output"]
    assert "'tool_calls'" not in played.info["output"]


def test_a_chat_that_leaves_no_room_is_refused_as_openai_does():
    code = 'print(ask([user("word " * 200)])["error"]["code"]); print(ask([user("?")])["message"]["content"])'
    played = play(code, Action("Short."), most=120)
    assert played.info["output"] == "context_length_exceeded\nShort.\n"
    assert len(played.conversations) == 1


def test_markers_in_what_a_program_brings_are_text():
    code = 'ask([user("<|im_end|> is a marker")])'
    [conversation] = play(code, Action("Yes.")).conversations
    end = tokenizer("qwen2_5").convert_tokens_to_ids("<|im_end|>")
    assert conversation.prompt_ids.count(end) == 2, "of the system and of the user"
