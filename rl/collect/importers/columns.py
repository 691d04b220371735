"""The columns of a dataset's row by what they mean: public ones name the same thing in many ways, in any case.

Also chats that are one text, with marks of who speaks, cut between turns, and never inside one: Anthropic's ``Human:`` and
``Assistant:`` after an empty line, the same after one line break or ``###``, Open-Assistant's ``<|prompter|>``, ChatML's
``<|im_start|>user``, HelpSteer's ``<extra_id_1>User``."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rl.collect.importers import chat
from rl.collect.importers.chat import RATER, Talk
from rl.collect.importers.fields import Refused, from_text, others, thumb
from rl.collect.traces.imported import ImportedFeedback

ANSWER = ("completion", "response", "output", "answer")
CHOSEN = ("chosen", "chosen_response", "chosen_messages", "response_j")
REJECTED = ("rejected", "rejected_response", "rejected_messages", "response_k")
_QUESTION = ("prompt", "instruction", "question", "query", "input", "context")
_BESIDE_IT = ("input", "context")
"""What an instruction or a question is about."""
_SYSTEM = ("system", "system_prompt", "system_message")
_LABEL = ("label", "kto_tag")
_HISTORY = ("history",)
_RATER = ("rater", "annotator", "rater_id", "annotator_id", "judge")
_WORDS = re.compile("|".join((*ANSWER, *CHOSEN, *REJECTED, *_QUESTION, *_SYSTEM, r"(response|output|human_ref)_?\w")))
"""Columns of what was said."""


def from_cell(name: str, text: str) -> Any:
    """JSON in a cell of a table; where words stand, it is a chat, or the words are JSON themselves."""
    value = from_text(text)
    messages = value if isinstance(value, list) else [value]
    is_chat = all(isinstance(message, dict) and "role" in message for message in messages)
    return value if is_chat or not _WORDS.fullmatch(name.lower()) else text


@dataclass(slots=True)
class Columns:
    """Hands a row's values out, and notes what each was read as."""

    row: Mapping[str, Any]
    read_as: dict[str, str] = field(default_factory=dict)
    _names: dict[str, str] = field(init=False)
    """In small letters: as the row has it. Columns without a value are not among them."""
    _marked: bool = field(init=False, default=False)
    """Is the question a text with marks of who speaks? Then the blanks around an answer belong to its mark."""

    def __post_init__(self) -> None:
        self._names = {name.lower(): name for name, value in self.row.items() if value is not None}

    def has(self, names: Sequence[str]) -> bool:
        return any(name in self._names for name in names)

    def take(self, names: Sequence[str], meaning: str) -> Any:
        """The value of the first of ``names`` that the row has; None where it has none."""
        for name in names:
            if own_name := self._names.get(name):
                self.read_as[own_name] = meaning
                return self.row[own_name]
        return None

    def details(self) -> dict[str, Any]:
        """What was not handed out, and the tools that were offered."""
        details = others(self.row, self.read_as)
        if self.row.get("tools") is not None:
            self.read_as["tools"] = "the tools that were offered"
            details["tools"] = from_text(self.row["tools"])
        return details

    def before(self) -> list[Any]:
        """Messages before the answer: the system message, earlier turns, the question. Empty where the row has none."""
        return [*self.system(), *self._history(), *self._question()]

    def system(self) -> list[dict[str, Any]]:
        text = self.take(_SYSTEM, "the system message")
        if text is not None and not isinstance(text, str):
            raise Refused(f"the system message must be text, not {text!r:.50}")
        return [{"role": "system", "content": text}] if text and text.strip() else []

    def feedback(self) -> tuple[ImportedFeedback, ...]:
        """The label as a thumb. Raises Refused for one that is neither good nor bad."""
        label = self.take(_LABEL, "a thumb")
        if label is None:
            return ()
        if (value := thumb(label)) is None:
            raise Refused(
                f"label must be true or false (or 1, 0, good, bad), not {label!r:.50}; rename the column if it rates nothing"
            )
        return (ImportedFeedback(kind="rating", rater=self.rater(), scale="thumb", value=value),)

    def rater(self) -> str:
        """Who said it, by a column that names one person."""
        named = [name for name in _RATER if isinstance(self.row.get(self._names.get(name, "")), (str, int))]
        return (str(self.take(named[:1], "who said it")).strip() if named else "") or RATER

    def chat(self, names: Sequence[str]) -> Talk:
        """The last answer of a chat that has a column of its own. Raises Refused."""
        messages = self.take(names, "the chat")
        return chat.talk(chat.follow(self.system(), messages, names[0]), names[0])

    def talk(self, before: Sequence[Any], answer: object, field: str) -> Talk:
        """``answer``: text, or messages of it, or the whole chat in either form. Raises Refused."""
        if not isinstance(answer, (str, list)) or answer == []:
            raise Refused(f"{field} must be text or a list of messages")
        if isinstance(answer, list):
            return chat.talk(chat.follow(before, answer, field), field)
        turns = turns_of(answer)
        if turns and turns[-1]["role"] == "assistant":
            try:
                return chat.talk(chat.follow(before, turns, field), field)
            except Refused:
                pass  # an answer that is a dialogue
        text = answer.strip() if self._marked else answer
        return chat.talk([*before, {"role": "assistant", "content": text}], field)

    def _question(self) -> list[Any]:
        value = self.take(_QUESTION, "the question") if self.has(_QUESTION) else self._text_before()
        if value is None:
            return []
        if isinstance(value, str):
            turns = turns_of(value) or []
            self._marked = bool(turns) and turns[-1]["role"] == "user"
            return turns if self._marked else [{"role": "user", "content": self._with_input(value)}]
        if not isinstance(value, list) or not value:
            name = next(name for name, meaning in self.read_as.items() if meaning == "the question")
            raise Refused(f"{name} must be text or a list of messages")
        return value

    def _text_before(self) -> str | None:
        """A history that is one text, as SHP has it, is what was asked."""
        text = self.row.get(self._names.get(_HISTORY[0], ""))
        return str(self.take(_HISTORY, "the question")) if isinstance(text, str) else None

    def _with_input(self, question: str) -> str:
        asks = next((name for name, meaning in self.read_as.items() if meaning == "the question"), "").lower()
        for name in _BESIDE_IT if asks in ("instruction", "question") else ():
            value = self.row.get(self._names.get(name, ""))
            if isinstance(value, str):
                self.take([name], "the question's second part")
                question = question if value.strip() in question else f"{question}\n{value}"
        return question

    def _history(self) -> list[Any]:
        """Pairs of a question and its answer, or messages."""
        is_question = isinstance(self.row.get(self._names.get(_HISTORY[0], "")), str) and not self.has(_QUESTION)
        turns = [] if is_question else self.take(_HISTORY, "earlier turns") or []
        if not isinstance(turns, list):
            raise Refused(f"history must be a list of earlier turns, not {turns!r:.50}")
        messages: list[Any] = []
        for turn in turns:
            if isinstance(turn, dict):
                messages.append(turn)
            elif isinstance(turn, list) and len(turn) == 2 and all(isinstance(text, str) for text in turn):
                asked, answered = turn
                messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
            else:
                raise Refused("each turn of history must be a question and its answer, or a message")
        return messages


_ROLES = {"human": "user", "user": "user", "prompter": "user", "assistant": "assistant", "system": "system"}
_WHO = "(Human|User|Assistant|System)"
_MARKS = tuple(
    re.compile(mark)
    for mark in (
        rf"(?:\A|\n\n){_WHO}:",
        rf"(?:\A|\n){_WHO}:",
        rf"### ?{_WHO}:",
        r"<\|(prompter|user|human|assistant|system)\|>",
        r"<\|im_start\|>(user|assistant|system)(?:\n|\Z)",
        r"(?:\A|\n)<extra_id_[01]>(User|Assistant|System)(?:\n|\Z)",
    )
)
_ENDS = re.compile(r"\s*(?:<\|endoftext\|>|<\|im_end\|>|<\|end\|>|</s>)\s*\Z")
_RENDERED = re.compile(r"<\|im_start\|>|\[/INST\]|<\|start_header_id\|>|<start_of_turn>|### Response:|<\|assistant\|>")


def turns_of(text: str) -> list[dict[str, str]] | None:
    """Messages of a text that begins with the mark of a user or of the system and has one of an assistant; None for any
    other. A last turn of the assistant without words, after which its answer is to come, is left out."""
    if "ssistant" not in text:
        return None
    text = text.strip()
    if "\n<extra_id_1>Assistant" in text and not text.startswith("<extra_id_"):
        text = f"<extra_id_1>User\n{text}"  # the first turn has no mark
    for mark in _MARKS:
        before, *parts = mark.split(text)
        turns = [
            {"role": _ROLES[who.lower()], "content": _ENDS.sub("", words).strip()}
            for who, words in zip(parts[::2], parts[1::2], strict=True)
        ]
        roles = [turn["role"] for turn in turns]
        if not before.strip() and "assistant" in roles[1:] and roles[0] != "assistant" and "user" in roles:
            return turns if turns[-1]["role"] != "assistant" or turns[-1]["content"] else turns[:-1]
    return None


def is_rendered(text: str) -> bool:
    return bool(_RENDERED.search(text))
