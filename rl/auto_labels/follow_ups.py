"""The next message that a user wrote after an answer, where the conversation went on.

An app sends the conversation with each question, so a later trace's prompt is the earlier one's with its answer and the next
message behind it; or it names a session, and the next trace of it has the message. Both are looked up by an index, some
hundred traces at a time. Answer and message are of one user and session: whoever takes a person out takes out both."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from rl.base.messages import last_question
from rl.base.records import Message
from rl.models import Agent, Trace, prompt_key
from rl.models.traces import DUEL, may_be_used

MOST_READ: Final = 5_000
"""The newest traces of an agent that are looked at for messages."""
AT_ONCE: Final = 400
SOON: Final = timedelta(hours=1)
"""After which a message of the same session, without the conversation before it, is not of the last answer any more."""
_NO_SESSION: Final = ("", "default")
"""``default`` is what capturing writes where the app names none."""
_NO_USERS: Final = (DUEL, "episode")
"""Sources of answers that nobody wrote back to."""


class NextMessage(NamedTuple):
    trace_id: UUID
    """The answer."""
    next_id: UUID
    """The trace whose last question the message is."""
    question: str
    answer: str
    text: str
    conversation: str
    """The same for all of one conversation."""

    @property
    def turned_round(self) -> tuple[list[Message], str]:
        """A judge reads it as an answer: the message answers what the agent wrote."""
        return [Message(role="user", content=f"{self.question}\n\n{self.answer}")], self.text


def find_next_messages(agent: Agent) -> dict[UUID, NextMessage]:
    """Maps answers to the first message behind each."""
    traces, messages = list(_usable(agent).order_by("-created_at", "id").values(*_READ)[:MOST_READ]), {}
    for start in range(0, len(traces), AT_ONCE):
        part = traces[start : start + AT_ONCE]
        for message in (*_by_session(agent, part), *_by_prompt(agent, part)):
            messages[message.trace_id] = message  # the newest come first, and the first message stays
    return messages


_READ: Final = ("pk", "prompt", "response", "session_id", "unit", "occurred_at")
_Row = dict[str, Any]


def _usable(agent: Agent) -> QuerySet[Trace]:
    return Trace.objects.filter(may_be_used(), agent=agent).exclude(source__in=_NO_USERS).order_by()


def _by_prompt(agent: Agent, later: Sequence[_Row]) -> Iterator[NextMessage]:
    """One query."""
    wanted: defaultdict[tuple[str, ...], list[_Row]] = defaultdict(list)
    for row in later:
        if asked := _asked_before(row["prompt"]):
            wanted[prompt_key(asked), row["prompt"][-2]["content"].strip(), row["session_id"], row["unit"]].append(row)
    rows = _usable(agent).filter(prompt_key__in={key for key, *_ in wanted}).values(*_READ, "prompt_key")
    for earlier in rows[:MOST_READ] if wanted else ():
        key = (earlier["prompt_key"], earlier["response"].strip(), earlier["session_id"], earlier["unit"])
        yield from (_message(earlier, row) for row in wanted.get(key, ()))


def _asked_before(prompt: Sequence[Message]) -> list[Message]:
    """The prompt of the answer that the last message follows, without what tools said on the way to it; empty where it
    follows none."""
    if [message["role"] for message in prompt[-2:]] != ["assistant", "user"]:
        return []
    asked = (number for number in range(len(prompt) - 2, 0, -1) if prompt[number - 1]["role"] == "user")
    return list(prompt[: next(asked, 0)])


def _by_session(agent: Agent, later: Sequence[_Row]) -> Iterator[NextMessage]:
    """Reads sessions of apps that send no conversation. One query."""
    alone = {row["pk"]: row for row in later if row["session_id"] not in _NO_SESSION and _is_alone(row["prompt"])}
    if not alone:
        return
    times = [row["occurred_at"] for row in alone.values()]
    rows = _usable(agent).filter(session_id__in={row["session_id"] for row in alone.values()}).exclude(session_id="")
    rows = rows.filter(occurred_at__gte=min(times) - SOON, occurred_at__lte=max(times))
    for earlier, row in pairwise(rows.order_by("session_id", "occurred_at", "pk").values(*_READ)):
        same = all(earlier[name] == row[name] for name in ("session_id", "unit"))
        if row["pk"] in alone and same and row["occurred_at"] - earlier["occurred_at"] <= SOON:
            yield _message(earlier, row)


def _is_alone(prompt: Sequence[Message]) -> bool:
    return bool(prompt) and prompt[-1]["role"] == "user" and all(m["role"] != "assistant" for m in prompt)


def _message(earlier: _Row, later: _Row) -> NextMessage:
    prompt = earlier["prompt"]
    begin = next((number for number, message in enumerate(prompt) if message["role"] == "user"), len(prompt))
    conversation = (
        earlier["session_id"] if earlier["session_id"] not in _NO_SESSION else prompt_key(prompt[: begin + 1])
    )
    texts = (last_question(prompt), earlier["response"], last_question(later["prompt"]))
    return NextMessage(earlier["pk"], later["pk"], *texts, conversation)
