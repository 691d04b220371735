"""How a turn begins and ends, found out from what the chat template writes of tiny conversations.

A chat is only ever continued, never rendered again: templates drop what was thought in earlier turns, and the tokens that
were generated must stay as they are. So an observation is rendered in a conversation of its own, and what stands there
behind the end of the assistant's turn is what comes next (the way of TRL's GRPOTrainer)."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os.path import commonprefix
from typing import Any

from rl.environments.contract import Action, ToolRequest
from rl.environments.dialects import plain
from rl.lm.chat.template import TOOL, TOOL_NAME, Chat, ChatTemplate, TemplateRefused


class Native:
    """What a chat template is given where it knows tools."""

    def __init__(self, *, as_text: bool = False) -> None:
        """``as_text``: the template takes arguments as JSON in a text, OpenAI's form, and not as an object."""
        self._as_text = as_text

    def prompt(self, chat: Chat, tools: Chat) -> tuple[Chat, Chat]:
        """The messages and the tools for the template."""
        return chat, tools

    def turn(self, text: str, calls: Sequence[ToolRequest]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = []
        for number, call in enumerate(calls, 1):
            arguments: Any = dict(call.arguments)
            if self._as_text:
                arguments = json.dumps(arguments, ensure_ascii=False)
            function = {"name": call.name, "arguments": arguments}
            message["tool_calls"].append({"id": _call_id(number), "type": "function", "function": function})
        return message

    def observations(self, results: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
        """The messages after a turn's calls. ``names``: of the tools."""
        return [
            {"role": "tool", "name": name, "tool_call_id": _call_id(number), "content": result}
            for number, (result, name) in enumerate(zip(results, names, strict=True), 1)
        ]


class Plain:
    """What it is given where it needs to know nothing but users and assistants."""

    def prompt(self, chat: Chat, tools: Chat) -> tuple[Chat, Chat]:
        return plain.with_tools(chat, tools), ()

    def turn(self, text: str, calls: Sequence[ToolRequest]) -> dict[str, Any]:
        return plain.turn(Action(text, tuple(calls)))

    def observations(self, results: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:  # noqa: ARG002  as others of its kind
        return [plain.results(results)]


Style = Native | Plain


def _call_id(number: int) -> str:
    """Mistral's templates take nine letters and digits and nothing else."""
    return f"call{number:05}"


_QUESTION = {"role": "user", "content": "?"}
_MARK, _SECOND, _RESULT = "zqcalled1", "zqcalled2", "zqobserved"
_THOUGHT = re.compile(r"<think>\s*</think>\s*")
_THOUGHT_BEGUN = re.compile(r"<think>\s*(?:</think>\s*)?\Z")


class TurnFormat:
    opening: str
    """How the assistant's turn begins, behind a question."""
    call_end: str
    """The marker that ends a turn that calls a tool; where turns have no end, the first of what comes next."""
    answer_end: str
    endings: frozenset[str]
    """The markers behind an answer."""
    several: bool
    """The template writes more than one call in a turn."""
    names_tools: bool
    """An observation says of which tool it is."""

    def __init__(
        self, template: ChatTemplate, style: Style, markers: Callable[[str], Sequence[str]], end_of_text: str
    ) -> None:
        """Raises TemplateRefused for a template that does not write the style's messages."""
        self._template, self._style, self._markers = template, style, markers
        self.opening = self._render(opening=True)
        # between two calls: markers that stand there end no turn
        two_calls = ""
        with suppress(TemplateRefused):
            two_calls = self._render(self._call_turn(_MARK, _SECOND))
        first, second, _ = (_behind(_MARK, two_calls) if two_calls else "").partition(_SECOND)
        self.several, within = bool(second), frozenset(self._markers(first) if second else ())
        alone, followed = (
            _behind(_MARK, self._render(self._call_turn())),
            self._text_after_calls([_RESULT], [TOOL_NAME]),
        )
        if _RESULT not in followed:
            raise TemplateRefused("it drops the results of tools")
        # the end of a turn that calls a tool: by what stands behind the call when nothing follows, and when a result does
        self.call_end = self._end(alone, followed, within) or end_of_text
        # the end of an answer, in the same way: last, and before another question
        turn = self._style.turn(_MARK, ())
        ending = _behind(_MARK, self._render(turn))
        self.endings = frozenset(self._unlike(within, ending))
        self.answer_end = self._end(ending, _behind(_MARK, self._render(turn, _QUESTION)), within) or end_of_text
        # observations: they begin behind the end of the turn, or where two renderings part if no end stands there
        self._end_inside = self.call_end if self.call_end in followed else self._end("", followed, within)
        self._shared = commonprefix([alone.rstrip(), followed])
        self.names_tools = followed != self._text_after_calls([_RESULT], ["another8"])

    @property
    def thinks_first(self) -> bool:
        """The opening has begun a thought, which the model goes on with."""
        return bool(re.search(r"<think>\s*\Z", self.opening))

    def write(self, text: str, calls: Sequence[ToolRequest], thought: str = "") -> str:
        """A turn, from behind its opening to its end; ``thought``: what goes before it, where the template writes that or
        has begun it. Raises TemplateRefused."""
        more = {"reasoning_content": thought} if thought else {}
        body = self._body(self._render({**self._style.turn(text, calls), **more}))
        if self.thinks_first and thought not in body:
            body = thought + body
        return _end_with(body, self.call_end if calls else self.answer_end)

    def join(self, calls: str) -> str:
        """A turn of several calls that are written already. Raises TemplateRefused."""
        body = self._body(self._render(self._style.turn(calls, ())))
        return _end_with(body.rpartition(self.answer_end)[0] or body, self.call_end)

    def write_observations(
        self, results: Sequence[str], tools: Sequence[str], with_end: bool, more: Sequence[Mapping[str, Any]] = ()
    ) -> str:
        """What follows a turn that called ``tools``: what each brought, ``more`` messages and the opening of the next turn;
        with the end of the turn where that was cut off. Where the template cannot write several, they are one. Raises
        TemplateRefused."""
        try:
            followed = self._text_after_calls(results, tools, *more)
        except TemplateRefused:
            if len(results) == 1:
                raise
            followed = self._text_after_calls(["\n\n".join(results)], tools[-1:], *more)
        if not self._end_inside:
            return followed[len(self._shared) :]
        at = followed.index(self._end_inside)
        return followed[at if with_end else at + len(self._end_inside) :]

    def write_after_answer(self, messages: Sequence[Mapping[str, Any]], with_end: bool) -> str:
        """What follows a turn that called nothing: ``messages`` and the opening of the next turn; with the end of the turn
        where that was cut off. Raises TemplateRefused, also for a template whose answers have no end of their own."""
        followed = self._follow_answer(messages)
        if self.answer_end not in followed or TOOL_NAME in followed:
            raise TemplateRefused("it writes no end of an answer, or the tools again at a question")
        return self._without_end(followed, with_end)

    def write_question(self, text: str, with_end: bool) -> str:
        """As ``write_after_answer`` of what the user says, also where answers have no end of their own."""
        followed = self._follow_answer([{"role": "user", "content": text}])
        return self._without_end(followed, with_end) if self.answer_end in followed else followed

    def _follow_answer(self, messages: Sequence[Mapping[str, Any]]) -> str:
        return _behind(_MARK, self._render(self._style.turn(_MARK, ()), *messages, opening=True))

    def _without_end(self, followed: str, with_end: bool) -> str:
        at = followed.index(self.answer_end)
        return followed[at if with_end else at + len(self.answer_end) :]

    def _render(self, *messages: Mapping[str, Any], opening: bool = False) -> str:
        chat, tools = self._style.prompt([_QUESTION], [TOOL])
        return self._template.render([*chat, *messages], tools, opening)

    def _call_turn(self, *marks: str) -> dict[str, Any]:
        return self._style.turn("", [ToolRequest(TOOL_NAME, {"query": mark}) for mark in marks or (_MARK,)])

    def _text_after_calls(self, results: Sequence[str], tools: Sequence[str], *more: Mapping[str, Any]) -> str:
        """What stands behind the mark in the last call, to the opening of the next turn. Raises TemplateRefused, also where
        a result is lost."""
        if len(results) > 1 and not self.several:
            raise TemplateRefused("it writes one call in a turn")
        marks = [*(_SECOND for _ in results[1:]), _MARK]
        turn = self._style.turn(
            "", [ToolRequest(tool, {"query": mark}) for tool, mark in zip(tools, marks, strict=True)]
        )
        observations = self._style.observations(results, tools)
        followed = _behind(_MARK, self._render(turn, *observations, *more, opening=True))
        if more and TOOL_NAME in followed:
            raise TemplateRefused("it writes the tools again at a question")
        if len(results) > 1 and not all(result.strip() in followed for result in results):
            raise TemplateRefused("it drops the results of some tools")
        return followed

    def _end(self, alone: str, followed: str, within: frozenset[str]) -> str:
        """The last marker that a template writes behind a turn whatever comes next, or behind the last turn of a chat, or
        else the first of what comes next."""
        shared, own = self._unlike(within, commonprefix([alone, followed])), self._unlike(within, alone)
        if shared or own:
            return (shared or own)[-1]
        return next(iter(self._unlike(within, followed)), "")

    def _unlike(self, within: frozenset[str], text: str) -> list[str]:
        return [marker for marker in self._markers(text) if marker not in within]

    def _body(self, rendered: str) -> str:
        if rendered.startswith(self.opening):
            return rendered[len(self.opening) :]
        head = _THOUGHT_BEGUN.sub("", self.opening)
        if not rendered.startswith(head):
            raise TemplateRefused("it begins an assistant's turn in two ways")
        body = _THOUGHT.sub("", rendered[len(head) :], count=1)
        return f"\n</think>\n\n{body}" if self.thinks_first else body


def _behind(mark: str, rendered: str) -> str:
    _, separator, rest = rendered.partition(mark)
    if not separator:
        raise TemplateRefused("it drops tool calls, or what the assistant says")
    return rest


def _end_with(body: str, end: str) -> str:
    at = body.rfind(end)
    return (body[:at] if at >= 0 else body.rstrip()) + end
