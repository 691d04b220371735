"""Traces with tool calls, prompt by prompt."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast

from rl.base.records import Message
from rl.collect.traces.episodes import REPLAY
from rl.collect.traces.records import tool_calls
from rl.dataset_builder.read.ratings import CHUNK, plan_for_all_rows
from rl.models import Agent, Trace, prompt_key

MOST_TRACES = 500
"""Most traces that are read of one prompt, the newest."""


class RecordedTrace(NamedTuple):
    """A stored trace with the episode that it tells of, if there is one. The JSON columns come as text."""

    key: str
    prompt: str
    calls: str
    response: str
    details: str
    occurred_at: datetime
    created_at: datetime
    environment: str | None
    """None: no episode."""
    task_id: str | None
    success: bool | None
    split: str | None
    run: int | None

    @property
    def messages(self) -> list[Message]:
        messages: list[Message] = json.loads(self.prompt)
        return messages

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """As a task for replays has them."""
        names = ("tool_name", "arguments", "result", "success", "error")
        return [{name: getattr(call, name) for name in names} for call in tool_calls(json.loads(self.calls))]

    @property
    def facts(self) -> dict[str, Any]:
        """Its ``details``."""
        details = json.loads(self.details)
        return details if isinstance(details, dict) else {}


def traces_with_calls(agent: Agent) -> Iterator[tuple[str, list[RecordedTrace]]]:
    """The hash of a prompt's words, and the traces in the order in which they were recorded. Those of replays tell nothing
    of the world and are left out. One query, whose rows come through a cursor."""
    plan_for_all_rows()
    rows = map(RecordedTrace._make, _query(agent).iterator(chunk_size=CHUNK))
    for _, of_one_key in groupby(rows, key=attrgetter("key")):
        prompts: dict[str, list[RecordedTrace]] = {}  # an importer's own key may stand for prompts in other words
        newest = heapq.nlargest(MOST_TRACES, of_one_key, key=attrgetter("occurred_at", "created_at"))
        for trace in reversed(newest):
            prompts.setdefault(trace.prompt, []).append(trace)
        yield from ((prompt_key(traces[0].messages), traces) for traces in prompts.values())


def _query(agent: Agent) -> QuerySet[Trace, tuple[Any, ...]]:
    """The columns of RecordedTrace, in its order. Of one prompt they come in any order: to sort them all takes longer."""
    texts = (Cast(name, TextField()) for name in ("prompt", "tool_calls", "details"))
    prompt, calls, details = texts
    of_the_world = Q(episode__isnull=True) | ~Q(episode__environment=REPLAY)
    return (
        Trace.objects.filter(of_the_world, agent=agent)
        .exclude(tool_calls=[])
        .order_by("prompt_key")
        .values_list(
            "prompt_key",
            prompt,
            calls,
            "response",
            details,
            "occurred_at",
            "created_at",
            "episode__environment",
            "episode__task_id",
            "episode__success",
            "episode__split",
            "episode__run_id",
        )
    )
