"""Answers that were given, for requests that name them: to go on from, to read again, to delete."""

import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from rl.base.answer_ids import as_id
from rl.base.messages import as_data, requested_calls, without_calls
from rl.collect.traces.rows import run_ids
from rl.models import Trace
from rl.models.traces import GATEWAY
from rl.serving.dialects.dialect import CONVERSATION, Document, Earlier
from rl.serving.gateway import pending
from rl.serving.gateway.answer_rows import RUN
from rl.serving.gateway.exchange import DIALECT
from rl.serving.gateway.refusals import Refusal
from rl.serving.gateway.routing import KnownKey

MOST_UNREAD: Final = 100
"""How many answers of a conversation in a row may be none to read again, for the next one to be found."""


class StoredAnswer(NamedTuple):
    id: UUID
    """Under which it was given: where it is part of a run, not the trace's."""
    trace: Trace
    messages: list[dict[str, Any]]
    """The chat up to the answer, which is the last one, as a request has it; without the instructions of a response."""
    instructions: str | None

    @property
    def kept(self) -> dict[str, Any]:
        return dict(self.trace.details.get(DIALECT, {}))


def find_answers(key: KnownKey, names: Iterable[str]) -> dict[str, StoredAnswer]:
    """By the names that the gateway gave them; those that the key may not see, or that were not to be stored, are missing.
    Raises DatabaseError and OSError."""
    ids = {name: given for name in names if (given := as_id(name))}
    traces = _visible_to(key).in_bulk(ids.values())
    if later := [str(given) for given in ids.values() if given not in traces]:
        pending.deliver_named(later)
        runs = run_ids(later)
        here = _visible_to(key).in_bulk({*map(as_id, later), *runs.values()} - {None})
        traces |= {given: here[run] for given in ids.values() if (run := runs.get(str(given), given)) in here}
    return {
        name: _read(traces[given], given)
        for name, given in ids.items()
        if given in traces and traces[given].details.get("parameters", {}).get("store") is not False
    }


def find_earlier(key: KnownKey, names: Iterable[str], model: str) -> Earlier:
    """The chats up to these answers, and of CONVERSATIONs with the agent ``model`` those up to the newest. Raises
    DatabaseError and OSError."""
    given = list(names)
    chats: dict[str, list[dict[str, Any]]] = {
        name: answer.messages for name, answer in find_answers(key, given).items()
    }
    for name in given:
        if name.startswith(CONVERSATION):
            pending.deliver_all()
            of_agent = _visible_to(key).filter(agent__name__iexact=model.partition("@")[0])
            answers = of_agent.filter(session_id=name.removeprefix(CONVERSATION)).order_by("-occurred_at", "-pk")
            marks = answers.values_list("pk", "details__parameters__store")[:MOST_UNREAD]
            newest = [pk for pk, stores in marks if stores is not False][:1]
            last = of_agent.filter(pk__in=newest).first()
            chats[name] = _read(last, last.pk).messages if last else []
    return chats


def delete_answer(key: KnownKey, name: str) -> None:
    """Raises Refusal where it is not here, where somebody has said or learned something of it, or where its run went on."""
    answer = find_answers(key, [name]).get(name)
    if answer is None:
        raise not_here(name)
    here = Trace.objects.filter(pk=answer.id, feedback=None, compared=None, memberships=None)
    if not here.delete()[0]:
        message = f"{name} was rated, a model learned of it, or its run went on: it stays"
        raise Refusal(409, message, code="response_in_use")


def not_here(name: str) -> Refusal:
    return Refusal(404, f"there is no stored response {name[:100]!r} that this key may read", code="not_found")


def _visible_to(key: KnownKey) -> QuerySet[Trace]:
    traces = Trace.objects.filter(source=GATEWAY).select_related("agent", "model_version")
    return traces if key.agent_id is None else traces.filter(agent=key.agent_id)


def _read(trace: Trace, answer_id: UUID) -> StoredAnswer:
    stored = trace.details.get("messages") or [*trace.prompt, {"role": "assistant", "content": trace.response}]
    messages = [_as_sent(message) for message in _until(trace, stored, str(answer_id))]
    has_instructions = bool(trace.details.get(DIALECT, {}).get("instructions"))
    instructions = messages[0]["content"] if has_instructions else None
    return StoredAnswer(answer_id, trace, messages[1:] if has_instructions else messages, instructions)


def _until(trace: Trace, messages: list[Document], name: str) -> list[Document]:
    """The messages of a run up to one of its answers."""
    parts = [part["external_id"] for part in trace.details.get(RUN, {}).get("parts", ())]
    if name not in parts[:-1]:
        return messages
    turns = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
    of_run = [number for number in turns if number >= len(trace.prompt)]
    return messages[: of_run[parts.index(name)] + 1]


def _as_sent(message: Document) -> dict[str, Any]:
    calls = [
        as_data(call.name, json.dumps(call.arguments, ensure_ascii=False), call.id) for call in requested_calls(message)
    ]
    own = {"tool_call_id": message["tool_call_id"]} if message.get("tool_call_id") else {}
    text = without_calls(message)
    return {
        "role": message["role"],
        "content": text if text or not calls else None,
        **own,
        **({"tool_calls": calls} if calls else {}),
    }
