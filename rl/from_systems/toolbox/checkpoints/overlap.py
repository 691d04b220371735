"""The checkpoints of one agent hold the same conversations again and again, each time a few more. Here they become one.

Conversations without a time, in histories that are windows: each checkpoint holds the newest messages of a session, and
the next one begins somewhere in the middle of it. Here they get ids, so that the same conversation has the same one."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rl.base.records import ReasoningStep
from rl.collect.capture.execution_trace import ExecutionTrace
from rl.from_systems.toolbox.checkpoints.extraction import BETWEEN_QUESTIONS, moment, trace_id

_COUNTS = ("total_tokens_in", "total_tokens_out", "llm_calls_count")
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_Words = tuple[str, str]
"""Query and answer."""


class _Match(NamedTuple):
    start: int
    length: int


class SessionConversations:
    """The conversations of one session, as far as the checkpoints that were looked at tell."""

    def __init__(self) -> None:
        self._words: list[_Words] = []
        self._ids: list[str] = []
        self._counts: Counter[_Words] = Counter()

    def identify(self, window: Sequence[ExecutionTrace]) -> None:
        """Sets the ids. What the window shares with what is known, in the same order, is the same; all else is new, also
        where somebody asked the same again and got the same answer."""
        words = [(trace.user_query, trace.final_response) for trace in window]
        self._complete(words)
        later, earlier = longest_beginning(words, self._words), longest_beginning(self._words, words)
        first, (start, length) = 0, later
        if earlier.length > length:
            first, start, length = earlier.start, 0, earlier.length
        elif not length:
            start = len(self._words)
        ids = self._ids[start : start + length]
        before = [self._new_id(trace, pair) for trace, pair in zip(window[:first], words, strict=False)]
        end = first + length
        after = [self._new_id(trace, pair) for trace, pair in zip(window[end:], words[end:], strict=True)]
        for trace, (query, _), identity in zip(window, words, before + ids + after, strict=True):
            trace.trace_id, trace.user_query = identity, query
        for at, new, new_ids in ((start + length, words[end:], after), (start, words[:first], before)):
            self._words[at:at], self._ids[at:at] = new, new_ids

    def _complete(self, words: list[_Words]) -> None:
        """The window may begin after the first of several questions that have one answer."""
        if not words or words[0] in self._counts:
            return
        query, answer = words[0]
        longer = (known for known in reversed(self._words) if known[1] == answer)
        words[0] = next((known for known in longer if known[0].endswith(BETWEEN_QUESTIONS + query)), words[0])

    def _new_id(self, trace: ExecutionTrace, words: _Words) -> str:
        repeat = self._counts[words]
        self._counts[words] += 1
        return trace_id(trace.session_id, words[0], "", words[1], repeat)


def longest_beginning(part: Sequence[_Words], whole: Sequence[_Words]) -> _Match:
    """Where in ``whole`` the longest beginning of ``part`` stands, the last of equally long ones, in linear time (Gusfield's
    Z values)."""
    items: list[_Words | None] = [*part, None, *whole]
    lengths, left, right = [0] * len(items), 0, 0
    best = _Match(0, 0)
    for at in range(1, len(items)):
        length = min(lengths[at - left], right - at) if at < right else 0
        while at + length < len(items) and items[length] == items[at + length]:
            length += 1
        lengths[at] = length
        if at + length > right:
            left, right = at, at + length
        if at > len(part) and length >= max(best.length, 1):
            best = _Match(at - len(part) - 1, length)
    return best


@dataclass(frozen=True, slots=True)
class CheckpointContents:
    """What one file holds."""

    filename: str
    at: datetime
    about: Mapping[str, Any]
    """As ``rl.from_systems.toolbox.checkpoints.extraction`` gives it."""
    traces: tuple[ExecutionTrace, ...]


@dataclass(slots=True)
class Conversation:
    trace: ExecutionTrace
    filename: str
    """The newest checkpoint that holds it."""
    at: datetime
    system_prompt: str = ""
    """As the first checkpoint that holds it has it; so are the tools."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """In OpenAI's form."""


@dataclass(slots=True)
class _Part:
    """A task or a step of reasoning: its newest words, and the conversation it belongs to."""

    what: Any
    owner: Conversation
    first: datetime
    newest: datetime


@dataclass(slots=True)
class _Agent:
    sessions: defaultdict[str, SessionConversations] = field(default_factory=lambda: defaultdict(SessionConversations))
    conversations: dict[str, Conversation] = field(default_factory=dict)
    tasks: dict[str, _Part] = field(default_factory=dict)
    steps: dict[tuple[str, str], _Part] = field(default_factory=dict)
    totals: Mapping[str, float] = field(default_factory=dict)
    totals_at: datetime = _LONG_AGO


def merge_checkpoints(checkpoints: Iterable[CheckpointContents]) -> list[Conversation]:
    """Each conversation once, in the order of time. Checkpoints may come in any order, and one is looked at at a time.

    The newest checkpoint's words count. A list of tool calls that an older one has more of stays as it was there, because
    histories are shortened with time. A task belongs to the conversation during which it was made; a task without a time,
    and reasoning, to the last conversation of the first checkpoint that knows of it. The newest totals, which count from
    the agent's beginning, are spread evenly."""
    agent = _Agent()
    for checkpoint in checkpoints:
        _identify(agent, checkpoint)
        prompt, tools = checkpoint.about["system_prompt"], tuple(checkpoint.about["tools"])
        for trace in checkpoint.traces:
            _take(agent.conversations, Conversation(trace, checkpoint.filename, checkpoint.at, prompt, tools))
        _take_about(agent, checkpoint)
    _attach(agent)
    conversations = sorted(agent.conversations.values(), key=_time)
    _spread(agent.totals, [conversation.trace for conversation in conversations])
    return conversations


def _identify(agent: _Agent, checkpoint: CheckpointContents) -> None:
    """Gives conversations without a time their id, and the time of the checkpoint."""
    windows: dict[str, list[ExecutionTrace]] = {}
    for trace in checkpoint.traces:
        if not trace.timestamp:
            windows.setdefault(trace.session_id, []).append(trace)
    for session_id, window in windows.items():
        agent.sessions[session_id].identify(window)
        for trace in window:
            trace.timestamp = checkpoint.at.isoformat()


def _take(conversations: dict[str, Conversation], newcomer: Conversation) -> None:
    here = conversations.setdefault(newcomer.trace.trace_id, newcomer)
    if here is newcomer:
        return
    calls = max(here.trace.tool_calls, newcomer.trace.tool_calls, key=len)
    first = min(here.trace.timestamp, newcomer.trace.timestamp)
    if newcomer.at >= here.at:
        here.trace, here.filename, here.at = newcomer.trace, newcomer.filename, newcomer.at
    here.trace.tool_calls, here.trace.timestamp = calls, first


def _take_about(agent: _Agent, checkpoint: CheckpointContents) -> None:
    if checkpoint.at >= agent.totals_at:
        agent.totals, agent.totals_at = checkpoint.about["totals"], checkpoint.at
    here = sorted((agent.conversations[trace.trace_id] for trace in checkpoint.traces), key=_time)
    if not here:
        return
    for task in checkpoint.about["tasks"]:
        created = moment(task["created_at"])
        begun = [owner for owner in here if created and _LONG_AGO < _time(owner) <= created]
        owner = (begun or here)[-1]
        _merge_part(agent.tasks, task["task_id"], _Part(task, owner, checkpoint.at, checkpoint.at))
    for step in checkpoint.about["reasoning_steps"]:
        key = (step["step_type"], step["content"])
        _merge_part(agent.steps, key, _Part(ReasoningStep(**step), here[-1], checkpoint.at, checkpoint.at))


def _merge_part(parts: dict[Any, _Part], key: Any, newcomer: _Part) -> None:
    here = parts.setdefault(key, newcomer)
    if newcomer.first < here.first:
        here.owner, here.first = newcomer.owner, newcomer.first
    if newcomer.newest >= here.newest:
        here.what, here.newest = newcomer.what, newcomer.newest


def _attach(agent: _Agent) -> None:
    for part in agent.tasks.values():
        task, trace = part.what, part.owner.trace
        event = {name: task[name] for name in ("task_id", "type", "description")}
        trace.tasks_created.append({**event, "timestamp": task["created_at"]})
        if task["status"] == "completed":
            trace.tasks_completed.append({**event, "timestamp": task["ended_at"], "result": task["result"]})
        elif task["status"] == "failed":
            trace.tasks_failed.append({**event, "timestamp": task["ended_at"], "error": task["error"]})
    for part in agent.steps.values():
        part.owner.trace.reasoning_steps.append(part.what)


def _spread(totals: Mapping[str, float], traces: list[ExecutionTrace]) -> None:
    """Whole numbers stay whole and add up to the total: the first ones have one more."""
    for name in _COUNTS:
        share, rest = divmod(int(totals.get(name, 0)), len(traces) or 1)
        for index, trace in enumerate(traces):
            setattr(trace, name, share + (index < rest))
    for trace in traces:
        trace.total_cost = totals.get("total_cost", 0) / len(traces)


def _time(conversation: Conversation) -> datetime:
    return moment(conversation.trace.timestamp) or _LONG_AGO
