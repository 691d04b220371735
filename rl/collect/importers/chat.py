"""Chat messages as OpenAI and TRL write them: what was asked, what was answered, and which tools were called on the way.

The prompt goes to the last user message before the last answer. What comes after it is what the model did: tool calls with
their results, thoughts, remarks, the answer."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from rl.base.messages import asks_nothing
from rl.base.records import Message, ReasoningStep, ToolCall
from rl.collect.importers.annotators import Choice
from rl.collect.importers.fields import Refused, content_hash, from_text
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace

RATER = "import"
"""The rater of feedback whose file does not name one."""
ROLES = {"developer": "system", "function": "tool", **{name: name for name in ("system", "user", "assistant", "tool")}}
BESIDE = ("reasoning_content", "reasoning", "thinking")
"""Fields in which servers give thoughts beside the content."""
_THOUGHTS, _CALLS = ("thinking", "reasoning"), ("tool_call", "tool_use")
"""Types of parts."""
_SAID = frozenset({"role", "content"})
_DONE = frozenset({"role", "content", "tool_calls", "function_call", "tool_call_id", "name", "reasoning_content"})
"""What the messages after the prompt may say without a loss."""


@dataclass(frozen=True, slots=True)
class Talk:
    prompt: tuple[Message, ...]
    response: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning_steps: tuple[ReasoningStep, ...] = ()
    original: list[Any] | None = None
    """The messages, where they say more than these fields: thoughts and calls that were parts as fields."""


class _Turn(NamedTuple):
    role: str
    content: str
    message: Mapping[str, Any]

    def says_only(self, names: frozenset[str]) -> bool:
        if isinstance(self.message.get("content"), list) or self.message["role"] != self.role:
            return False
        return names.issuperset(self.message) or all(
            name in names or value in (None, [], "") for name, value in self.message.items()
        )


def talk(messages: object, field: str = "messages") -> Talk:
    """Raises Refused."""
    turns = _turns(messages, field)
    answers = [index for index, turn in enumerate(turns) if turn.role == "assistant"]
    if not answers:
        raise Refused(f"{field} has no message of the assistant")
    questions = [index for index, turn in enumerate(turns[: answers[-1]]) if turn.role == "user"]
    system = next((index for index, turn in enumerate(turns) if turn.role != "system"), len(turns))
    start = questions[-1] + 1 if questions else system
    if start == 0:
        raise Refused(f"{field} has nothing before the answer")
    prompt, work = turns[:start], [turn for turn in turns[start:] if turn.role in ("assistant", "tool")]
    lossless = (
        all(turn.says_only(_SAID) for turn in prompt)
        and all(turn.says_only(_DONE) for turn in work)
        and len(prompt) + len(work) == len(turns)
    )
    return Talk(
        prompt=tuple(Message(role=turn.role, content=turn.content) for turn in prompt),
        response=turns[answers[-1]].content,
        tool_calls=tuple(_calls(work)),
        reasoning_steps=tuple(_steps(work, turns[answers[-1]])),
        original=None if lossless else [_with_fields(turn) for turn in turns],
    )


def follow(before: Sequence[Any], answer: object, field: str) -> list[Any]:
    """The chat that ends with ``answer``: what comes before it and the answer; or the answer alone where that is a whole
    chat, with the system message that stands before it. Raises Refused where the two are chats of their own."""
    turns = _turns(answer, field)
    earlier = _turns(list(before), "the prompt") if before else []
    start = next((index for index, turn in enumerate(earlier) if turn.role != "system"), len(earlier))
    asked, messages = earlier[start:], list(answer)  # type: ignore[call-overload]
    if turns[0].role not in ("user", "system"):
        return [*before, *messages]
    if turns[0].role == "system" and start:
        if [_words(turn) for turn in earlier[:start]] != [_words(turns[0])]:
            raise Refused(f"{field} begins with another system message than the one beside it")
        start = 0
    if not asked or _holds(turns, asked):
        return [*before[:start], *messages]
    if asked[-1].role == "user":
        raise Refused(f"{field} is a whole chat that begins with another question than the prompt")
    return [*before, *messages]


def _holds(turns: Sequence[_Turn], asked: Sequence[_Turn]) -> bool:
    """Are the messages in the chat, or the chat's last question in the one message?"""
    spoken = [_words(turn) for turn in turns]
    question = next((_words(turn) for turn in reversed(turns) if turn.role == "user"), "")
    in_one = len(asked) == 1 and bool(question) and question in _words(asked[0])
    return in_one or all(_words(turn) in spoken for turn in asked)


def _words(turn: _Turn) -> str:
    return " ".join(turn.content.split())


def trace(
    where: str,
    talk: Talk,
    details: Mapping[str, Any] | None = None,
    feedback: tuple[ImportedFeedback, ...] = (),
    external_id: str = "",
) -> ImportedTrace:
    """Without an id of its own a record is known by its content, so that the order of the file does not matter. Raises
    Refused where nothing is asked."""
    if talk.original is None and asks_nothing(talk.prompt):
        raise Refused("nothing is asked: the text before the answer is blank")
    all_details = {**(details or {}), **({"messages": talk.original} if talk.original else {})}
    work = [[asdict(call) for call in talk.tool_calls], [asdict(step) for step in talk.reasoning_steps]]
    return ImportedTrace(
        where=where,
        external_id=external_id or content_hash(talk.prompt, talk.response, work, all_details),
        prompt=talk.prompt,
        response=talk.response,
        tool_calls=talk.tool_calls,
        reasoning_steps=talk.reasoning_steps,
        details=all_details,
        feedback=feedback,
    )


def pair(
    where: str,
    better: Talk,
    worse: Talk,
    details: Mapping[str, Any] | None = None,
    external_id: str = "",
    picks: Sequence[tuple[str, Choice]] = ((RATER, "left"),),
) -> list[ImportedTrace]:
    """Two answers, and that the first is the better one, unless ``picks`` says who thinks what. Raises Refused."""
    if better.prompt != worse.prompt:
        raise Refused("the two answers belong to different prompts")
    ids = (f"{external_id}/chosen", f"{external_id}/rejected") if external_id else ("", "")
    right = trace(where, worse, details, external_id=ids[1])
    left = trace(where, better, details, external_id=ids[0])
    for choice, answer in (("left", left), ("right", right)):
        if any(picked == choice for _, picked in picks) and not (answer.response.strip() or answer.tool_calls):
            raise Refused("the better answer is blank")
    if (left.response, left.tool_calls) == (right.response, right.tool_calls):
        raise Refused("the two answers are the same")
    other = right.external_id
    feedback = (
        ImportedFeedback(kind="comparison", rater=who, choice=what, other_external_id=other) for who, what in picks
    )
    return [right, replace(left, feedback=tuple(feedback))]


def _turns(messages: object, field: str) -> list[_Turn]:
    if not isinstance(messages, list) or not messages:
        raise Refused(f"{field} must be a list of messages" if messages is not None else f"{field} is missing")
    return [_turn(message, f"{field}[{index}]") for index, message in enumerate(messages)]


def _turn(message: object, field: str) -> _Turn:
    if not isinstance(message, dict):
        raise Refused(f"{field} is not an object")
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise Refused(f"{field}.role must be one of {', '.join(ROLES)}, not {role!r:.50}")
    return _Turn(ROLES[role], _content(message.get("content"), field), message)


def _content(value: object, field: str) -> str:
    """Text, or the texts among the parts; thoughts and tool calls among them are none."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, (dict, str)) for part in value):
        texts = (part if isinstance(part, str) else _words_of(part) for part in value)
        return "\n".join(part for part in texts if isinstance(part, str))
    raise Refused(f"{field}.content must be text or a list of parts, not {value!r:.50}")


def _words_of(part: Mapping[str, Any]) -> Any:
    kind = part.get("type", "text")
    words = part.get("text") or part.get("refusal") or (part.get("value") if kind == "text" else None)
    return None if kind in (*_THOUGHTS, *_CALLS) else words


def _parts(turn: _Turn, kinds: Sequence[str]) -> list[Mapping[str, Any]]:
    content = turn.message.get("content")
    parts = content if isinstance(content, list) else []
    return [part for part in parts if isinstance(part, dict) and part.get("type") in kinds]


def _steps(work: Iterable[_Turn], answer: _Turn) -> Iterator[ReasoningStep]:
    for turn in work:
        if turn.role == "assistant":
            for thought in _thoughts(turn):
                yield ReasoningStep(thought, step_type="reasoning")
            if turn is not answer and turn.content:
                yield ReasoningStep(turn.content, step_type="message")


def _thoughts(turn: _Turn) -> Iterator[str]:
    """In a field beside the content, or in parts of it."""
    parts = (part.get(name) for part in _parts(turn, _THOUGHTS) for name in ("thinking", "text", "value", "content"))
    beside = (turn.message.get(name) for name in BESIDE)
    own = next(([text] for text in beside if isinstance(text, str) and text), None)
    yield from own or (text for text in parts if isinstance(text, str) and text)


def _with_fields(turn: _Turn) -> Mapping[str, Any]:
    calls, parts = _parts(turn, _CALLS), _parts(turn, ("text", *_THOUGHTS, *_CALLS))
    if not (calls or _parts(turn, _THOUGHTS) or any("value" in part for part in parts)):
        return turn.message
    thoughts = "\n\n".join(_thoughts(turn))
    more = {
        "tool_calls": [
            {"id": call.get("id"), "function": call} for part in calls if isinstance(call := _call_of(part), dict)
        ],
        "reasoning_content": thoughts,
    }
    return {**turn.message, "content": turn.content, **{name: value for name, value in more.items() if value}}


def _calls(work: Iterable[_Turn]) -> list[ToolCall]:
    """A result goes to the call with its id, else to the first that has none yet."""
    calls: list[tuple[object, ToolCall]] = []
    waiting: list[int] = []
    for turn in work:
        if turn.role == "assistant":
            for call in _requested_calls(turn):
                waiting.append(len(calls))
                calls.append(call)
            continue
        wanted = turn.message.get("tool_call_id")
        index = next((index for index in waiting if wanted is not None and calls[index][0] == wanted), None)
        index = waiting[0] if index is None and waiting else index
        if index is None:
            name = turn.message.get("name")
            calls.append((wanted, ToolCall(name if isinstance(name, str) and name else "tool", result=turn.content)))
        else:
            waiting.remove(index)
            calls[index] = (calls[index][0], replace(calls[index][1], result=turn.content))
    return [call for _, call in calls]


def _requested_calls(turn: _Turn) -> Iterator[tuple[object, ToolCall]]:
    listed = turn.message.get("tool_calls") or []
    old = turn.message.get("function_call")
    parts = [_call_of(part) for part in _parts(turn, _CALLS)]
    for call in [*listed, *([{"function": old}] if old else []), *parts] if isinstance(listed, list) else [listed]:
        function = call.get("function", call) if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(name := function.get("name"), str) or not name:
            raise Refused(f"a tool call must name its function, not {call!r:.80}")
        yield call.get("id"), ToolCall(name, arguments=from_text(function.get("arguments")))


def _call_of(part: Mapping[str, Any]) -> Any:
    """LLaMA-Factory writes a call as JSON text, Anthropic as fields."""
    if part.get("type") == "tool_use":
        return {"id": part.get("id"), "name": part.get("name"), "arguments": part.get("input")}
    return from_text(part.get("value"))
