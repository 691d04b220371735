"""Answers worth imitating, for supervised fine-tuning, as runs with their tool calls: OpenAI's chat format, TRL's
conversational prompt-completion format, which its SFTTrainer loads as it is, and ShareGPT's conversations, with tool calls
in the turns ``function_call`` and ``observation``. ``tools`` stand beside them where the agent has some.

All answers that are not known to be bad are worth it, edited ones as they were edited: who edits an answer says that it
should not be imitated as it was, whatever others think of it."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from rl.base.messages import as_data, requested_calls
from rl.base.records import JudgedAnswer, Message
from rl.data_formatter.grouped import merge_same_texts
from rl.data_formatter.labelled import LabelRule, label_of
from rl.data_formatter.opinions import BROKEN_OFF, EMPTY_ANSWER
from rl.data_formatter.runs import answer_messages, prompt_messages, tools_column
from rl.dataset_builder.exporting import Column, ExportedRow, RowFormat
from rl.dataset_builder.read.judged import Wanted, judged_answers
from rl.dataset_builder.rows.judged import label_rule

BAD = "labelled bad"


class ImitatedRows(RowFormat):
    def rows(self) -> Iterator[ExportedRow]:
        proposals = self._agent.auto_label_threshold is not None
        wanted = Wanted(everything=True, proposals=proposals)
        rule = label_rule(self._agent)
        stored = judged_answers(self._agent, self._tally, wanted)
        for answer in filter(self._keeps, merge_same_texts(stored, self._tally.skipped)):
            for text in answer.corrections or self._own_text(answer, rule):
                values = self._values(prompt_messages(answer.prompt), answer_messages(text, answer.steps))
                yield self._row(answer.split_key, {**values, **tools_column(answer.tools)})

    def _values(self, prompt: list[Message], run: list[Message]) -> dict[str, Any]:
        """``run``: what the agent should have done and said."""
        raise NotImplementedError

    def _own_text(self, answer: JudgedAnswer, rule: LabelRule) -> tuple[str, ...]:
        """Empty: left out, and counted."""
        if not answer.response.strip():
            self._tally.skipped[EMPTY_ANSWER] += 1
            return ()
        if answer.is_broken_off:
            self._tally.skipped[BROKEN_OFF] += 1
            return ()
        label = label_of(answer, rule, Counter())
        if label and not label.good:
            self._tally.skipped[BAD] += 1
            return ()
        return (answer.response,)


class OpenAI(ImitatedRows):
    columns: ClassVar[dict[str, Column]] = {"messages": "messages", "tools": "json"}

    def _values(self, prompt: list[Message], run: list[Message]) -> dict[str, Any]:
        return {"messages": [_as_openai(message) for message in (*prompt, *run)]}


class TRL(ImitatedRows):
    columns: ClassVar[dict[str, Column]] = {"prompt": "messages", "completion": "messages", "tools": "json"}

    def _values(self, prompt: list[Message], run: list[Message]) -> dict[str, Any]:
        return {"prompt": prompt, "completion": run}


def _as_openai(message: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments are JSON text there, a turn that only calls has no content, a result no name, and nothing a thought."""
    written = {name: value for name, value in message.items() if name not in ("name", "reasoning_content")}
    if calls := requested_calls(message):
        written["content"] = message["content"] or None
        texts = (json.dumps(call.arguments, ensure_ascii=False) for call in calls)
        written["tool_calls"] = [as_data(call.name, text, call.id) for call, text in zip(calls, texts, strict=True)]
    return written


SPEAKERS = {"system": "system", "user": "human", "assistant": "gpt", "tool": "observation"}


class ShareGPT(ImitatedRows):
    columns: ClassVar[dict[str, Column]] = {"conversations": "turns", "tools": "json"}

    def _values(self, prompt: list[Message], run: list[Message]) -> dict[str, Any]:
        return {"conversations": [turn for message in (*prompt, *run) for turn in _turns(message)]}


def _turns(message: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    calls = [{"name": call.name, "arguments": call.arguments} for call in requested_calls(message)]
    if message["content"] or not calls:
        yield {"from": SPEAKERS[message["role"]], "value": message["content"]}
    if calls:
        yield {"from": "function_call", "value": json.dumps(calls[0] if len(calls) == 1 else calls, ensure_ascii=False)}
