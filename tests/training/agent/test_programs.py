"""Conversations of programs with a policy that says what a script has for it, token by token."""

import os
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from statistics import fmean, mean, stdev
from typing import Any

import pytest

from rl.base.errors import Interrupted, TrainingFailed
from rl.environments.contract import Action, ToolRequest
from rl.environments.crew import crew
from rl.environments.settings import EnvironmentSettings
from rl.lm import checkpoints
from rl.lm.chat.format import ChatFormat
from rl.lm.lengths import TokenLimits
from rl.training.agent import train as agent
from rl.training.agent.programs import ProgramStage
from rl.training.agent.train import AgentTrainer, parts_of
from tests.environments.program.agents import ASK
from tests.training.agents import episodes, job, metrics, task
from tests.training.chatting import tokenizer
from tests.training.conftest import Listener, Row

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
    settings = EnvironmentSettings("program", {"command": list(command), **options})
    with crew(settings, 0) as programs:
        yield ProgramStage(programs, ChatFormat(tokenizer(template)), TokenLimits(most, 8192, 40))


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


PATIENT = """
chat = [user(task["prompt"])]
chat.append(ask(chat)["message"])
chat.append(user(task["prompt"]))
sys.exit(not ask(chat)["message"]["content"].startswith("Perhaps"))
"""
"""As the environment of that name: of himself he would rather thank."""
SEVERAL = """
words = [ask([user(f"Question number {number}?")])["message"]["content"] for number in range(1 + task["number"] % 3)]
sys.exit(not words[-1].startswith("Perhaps"))
"""
"""One conversation for each question, of which the last one counts."""


QUICK_ASK = """
import json, os, sys, socket
task = json.load(sys.stdin)
def ask(messages):
    host, _, path = os.environ["OPENAI_BASE_URL"].removeprefix("http://").partition("/")
    body = json.dumps({"messages": messages}).encode()
    head = "POST /%s/chat/completions HTTP/1.1\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n"
    with socket.create_connection(host.split(":")) as connection:
        connection.sendall((head % (path, len(body))).encode() + body)
        return json.loads(connection.makefile("rb").read().partition(b"\\r\\n\\r\\n")[2])["choices"][0]
def user(text):
    return {"role": "user", "content": text}
"""
"""As ``ASK``, in a fifth of the time that urllib takes to be imported: there are some hundred episodes here."""


def world(code: str, **options: Any) -> dict[str, Any]:
    return {"type": "program", "options": {"command": [sys.executable, "-S", "-c", QUICK_ASK + code], **options}}


def rows(count: int = 12, start: int = 0) -> list[Row]:
    return [task(number, prompt=f"Question number {number}?") for number in range(start, start + count)]


def train(base: Path, folder: Path, code: str, **overrides: Any) -> Listener:
    listener = Listener()
    options = {"environment": world(code), "max_length": 256, **overrides}
    agent.train(job(base, folder, rows(), rows(3, start=20), **options), listener)
    return listener


@pytest.mark.slow
def test_what_programs_reward_becomes_likelier(answering_base: Path, tmp_path: Path):
    """Measured with seeds 1, 2 and 5: 0.94 to 1, of 0.31 to 0.56 at first."""
    learning = {"max_steps": 8, "batch_size": 16, "num_generations": 8, "learning_rate": 1e-2, "eval_interval": 8}
    listener = train(answering_base, tmp_path, PATIENT, seed=5, temperature=0.7, epochs=2.0, **learning)
    told = episodes(listener)
    assert fmean(episode["success"] for episode in told[:16]) < 0.7
    assert fmean(episode["success"] for episode in told[-32:]) > 0.8
    assert {len(episode["turns"]) for episode in told} == {2}
    assert {step: of["heldout_success"] for step, of in metrics(listener).items() if step in (0, 8)} == {0: 0, 8: 1}


class Probe:
    """What TRL makes of the episodes of the first step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inputs: dict[str, Any] = {}
        self.passes: list[tuple[int, ...]] = []
        score, compute = AgentTrainer._generate_and_score_completions, AgentTrainer._compute_loss

        def score_and_keep(trainer: AgentTrainer, given: list[Any]) -> dict[str, Any]:
            self.inputs = score(trainer, given)
            self.episodes = trainer.rollout_func.episodes
            return dict(self.inputs)

        def compute_and_count(trainer: AgentTrainer, model: Any, inputs: dict[str, Any]) -> Any:
            self.passes.append(tuple(inputs["completion_ids"].shape))
            return compute(trainer, model, inputs)

        monkeypatch.setattr(AgentTrainer, "_generate_and_score_completions", score_and_keep)
        monkeypatch.setattr(AgentTrainer, "_compute_loss", compute_and_count)


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Probe:
    return Probe(monkeypatch)


def test_each_conversation_has_the_advantage_of_its_episode(answering_base: Path, tmp_path: Path, probe: Probe):
    shape = {"batch_size": 4, "gradient_accumulation": 2, "max_steps": 1, "seed": 3}
    told = episodes(train(answering_base, tmp_path, SEVERAL, **shape))
    asked = [1 + int(episode["task"]["number"]) % 3 for episode in told]
    assert [episode["info"]["conversations"] for episode in told] == asked
    assert sum(asked) > len(told), "else there is nothing to see"
    real = [number for number, count in enumerate(asked) for _ in range(count)]
    assert probe.episodes[: len(real)] == real
    rewards = [episode["reward"] for episode in told]
    expected = [
        (reward - mean(group)) / (stdev(group) + 1e-4) for group in (rewards[:4], rewards[4:]) for reward in group
    ]
    advantages = probe.inputs["advantages"].tolist()
    assert advantages[: len(real)] == pytest.approx([expected[number] for number in real], abs=1e-4)
    learned = (probe.inputs["tool_mask"] * probe.inputs["completion_mask"]).sum(1).tolist()
    tokens = [turn["tokens"] for episode in told for turn in episode["turns"]]
    assert learned == tokens + [0] * (len(learned) - len(real))
    assert probe.inputs["num_items_in_batch"] == sum(tokens)
    assert len(learned) % 2 == 0, "two passes share them"
    assert max(rows for rows, _ in probe.passes) <= 4, "no pass is larger than was asked for"


@pytest.mark.parametrize("loss", ["dapo", "grpo"])
def test_parts_of_a_pass_add_up_to_the_same_step(
    answering_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str
):
    shape = {"max_steps": 1, "seed": 3, "lora_dropout": 0.0, "loss_type": loss, "batch_size": 8}
    whole = train(answering_base, tmp_path / "whole", SEVERAL, **shape)
    cut = parts_of
    monkeypatch.setattr("rl.training.agent.train.parts_of", lambda inputs, most: cut(inputs, 3))
    parts = train(answering_base, tmp_path / "parts", SEVERAL, **shape)
    assert [episode["turns"] for episode in episodes(parts)] == [episode["turns"] for episode in episodes(whole)]
    for name in ("loss", "grad_norm"):
        assert metrics(parts)[1][name] == pytest.approx(metrics(whole)[1][name], rel=1e-3, abs=1e-6)


def test_a_command_that_fails_in_every_episode_is_told_at_once_and_ends_the_training(
    answering_base: Path, tmp_path: Path
):
    code = 'ask([user("?")]); raise LookupError("no shelf 7")'
    listener = Listener()
    with pytest.raises(
        TrainingFailed, match="no episode of the last 3 steps could be played; the last one: .*no shelf 7"
    ):
        agent.train(job(answering_base, tmp_path, rows(), environment=world(code, reward="answer")), listener)
    [warning] = [line for line in listener.log.splitlines() if "failed" in line]
    assert warning.startswith("the commands of all 8 episodes of a step failed: the command ended with exit code 1")


def test_a_command_that_never_asks_ends_the_training(answering_base: Path, tmp_path: Path):
    with pytest.raises(TrainingFailed, match="the command ended, and never asked the model at OPENAI_BASE_URL"):
        train(answering_base, tmp_path, "pass", num_generations=2, batch_size=2)


def test_a_stopped_training_goes_on_from_its_last_checkpoint(answering_base: Path, tmp_path: Path):
    options = {"environment": world(PATIENT), "max_length": 256, "max_steps": 3}
    with pytest.raises(Interrupted):
        agent.train(job(answering_base, tmp_path, rows(), **options), Listener(stop_at=1))
    assert checkpoints.newest_complete(tmp_path / "run") == tmp_path / "run" / "checkpoint-1"
    listener = Listener()
    assert agent.train(job(answering_base, tmp_path, rows(), resume=True, **options), listener).steps == 3
    assert {episode["step"] for episode in episodes(listener)} == {1, 2}
