"""Open-Assistant's exports. Message trees are ``{"message_tree_id", "prompt": {"text", "role", "replies": [...]}}``, threads
``{"thread_id", "thread": [{"text", "role"}]}``.

Each reply of the assistant is an answer to the way that leads to it. The one with the best rank is better than each of the
others. What people deleted or marked as spam is left out with all that follows it. A single message, as the files of
messages have them, says nothing of what it answers, and is refused."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from rl.collect.importers import chat
from rl.collect.importers.fields import NotForUs, Refused, identity, number, others
from rl.collect.importers.rivals import over
from rl.collect.importers.rows import SUFFIXES, records  # noqa: F401  SUFFIXES, for those who ask for it
from rl.collect.traces.imported import ImportedTrace

_ROLES = {"prompter": "user", "assistant": "assistant"}
_READ_AS = {
    **dict.fromkeys(("message_tree_id", "thread_id", "message_id"), "the id"),
    "prompt": "questions, answers and their ranks",
    "thread": "the chat",
    "text": "the question",
    "replies": "answers and their ranks",
}
_USED = ("text", "replies", "message_id")


def _tree(row: dict[str, Any], where: str) -> list[ImportedTrace]:
    if isinstance(row.get("thread"), list):
        return _thread(row, where)
    root = prompt if isinstance(prompt := row.get("prompt"), dict) else row
    if not isinstance(root.get("replies"), list):
        raise Refused(
            "is not a tree: wanted is a prompt with its replies, or a thread; "
            "of Open-Assistant's files import the one whose name ends in trees.jsonl.gz"
        )
    if made := list(_answers([], root, where)):
        return made
    raise NotForUs("a question that has no answer")


def _thread(row: dict[str, Any], where: str) -> list[ImportedTrace]:
    talk = chat.talk([_message(message) for message in row["thread"]], "thread")
    return [chat.trace(where, talk, others(row, ("thread", "thread_id")), external_id=identity(row, "thread_id"))]


def _answers(before: list[dict[str, str]], asked: dict[str, Any], where: str) -> Iterator[ImportedTrace]:
    """All below a question; of those to the question itself the best one last."""
    chat_before = [*before, _message(asked)]
    replies = [reply for reply in _replies(asked) if reply.get("role") == "assistant"]
    least = min((rank for reply in replies if (rank := number(reply, "rank")) is not None), default=None)
    best, worse = None, []
    for reply in replies:
        talk, rank = chat.talk([*chat_before, _message(reply)], "the tree"), number(reply, "rank")
        answer = chat.trace(where, talk, others(reply, _USED), external_id=identity(reply, "message_id"))
        if best is None and rank is not None and rank == least:
            best = answer
            continue
        worse += [answer] if least is not None and rank is not None and rank > least else []
        yield answer
    if best:
        yield over(best, worse)
    for reply in replies:
        for question in _replies(reply):
            yield from _answers([*chat_before, _message(reply)], question, where)


def _replies(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Those that nobody deleted or marked as spam. Raises Refused."""
    replies = message.get("replies") or []
    if not isinstance(replies, list) or not all(isinstance(reply, dict) for reply in replies):
        raise Refused("replies must be a list of messages")
    return [reply for reply in replies if not reply.get("deleted") and reply.get("review_result") is not False]


def _message(message: object) -> dict[str, str]:
    if not isinstance(message, dict) or not isinstance(message.get("text"), str):
        raise Refused("a message has no text")
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise Refused(f"role must be one of {', '.join(_ROLES)}, not {role!r:.50}")
    return {"role": _ROLES[role], "content": message["text"]}


read = partial(records, parse=_tree, columns=_READ_AS)
