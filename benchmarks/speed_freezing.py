"""Ratings into frozen pairs, beside a bare cursor that reads the same rows in the same order and does nothing with them."""

import hashlib
import json
import random
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final

from django.db import connection, transaction
from django.utils import timezone

from benchmarks.speed_contest import Way, compete
from benchmarks.speed_database import sqlite_site
from rl.dataset_builder import DataOptions, freeze
from rl.models import Agent

RATINGS: Final = 40_000
FEW: Final = 400
"""In the short form."""
PER_PROMPT: Final = 4
"""Answers, each with a rating."""
CHUNK: Final = 10_000
WORDS: Final = ("parcel", "order", "refund", "label", "courier", "depot", "café", "“noon”", "line\nbreak", "please")
_READ: Final = """
SELECT f.id, f.kind, f.rater, f.value, f.choice, f.text, f.trace_id, t.external_id, t.prompt_key, t.prompt, t.response,
       t.details, t.tool_calls, f.other_trace_id
FROM rl_feedback f JOIN rl_trace t ON t.id = f.trace_id
WHERE t.agent_id = %s AND f.is_current AND NOT f.kind = 'retraction'
ORDER BY t.prompt_key, f.trace_id, f.id
"""


def run(base: Path, folder: Path, rounds: int, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """In a database of its own, each round with ratings of its own. The "loss" is how many ratings were read."""
    ratings = FEW if base.name.startswith("tiny") else RATINGS
    with sqlite_site(folder):
        agents = [_rated_agent(f"agent-{number}", ratings) for number in range(rounds)]
        ways = [
            Way("raw cursor", lambda number: _read(agents[number])),
            Way("ours", lambda number: freeze(agents[number], DataOptions()).stats["ratings_read"]),
        ]
        rows = compete(ways, rounds, tell)
    for row in rows:
        tell(f"  {row['way']}: {ratings / max(row['cpu_seconds'], 1e-3):,.0f} ratings a CPU second")
    return rows


def _read(agent: Agent) -> int:
    count = 0
    with connection.cursor() as cursor:
        cursor.execute(_READ, [agent.pk])
        while rows := cursor.fetchmany(2000):
            count += len(rows)
    return count


def _rated_agent(name: str, ratings: int) -> Agent:
    agent = Agent.objects.create(name=name)
    rows = _rows(agent, ratings)
    while chunk := list(islice(rows, CHUNK)):
        with transaction.atomic():
            _insert("rl_trace", [trace for trace, _ in chunk])
            _insert("rl_feedback", [rating for _, rating in chunk])
    return agent


def _insert(table: str, rows: list[dict[str, Any]]) -> None:
    columns = ", ".join(rows[0])
    places = ", ".join(["%s"] * len(rows[0]))
    with connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", [[*row.values()] for row in rows])


def _rows(agent: Agent, ratings: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The trace and the rating of each answer."""
    draw = random.Random(agent.name)
    start = timezone.now().replace(tzinfo=None) - timedelta(days=30)
    empty = dict.fromkeys(("source", "session_id", "unit"), "") | {"details": "{}", "rewards": "{}"}
    empty |= dict.fromkeys(("tool_calls", "reasoning_steps", "tasks"), "[]")
    prompt, key = "", ""
    for number in range(ratings):
        now = (start + timedelta(seconds=number)).isoformat(sep=" ")
        if number % PER_PROMPT == 0:
            question = f"{number}: {_text(draw, 30)}?"
            prompt = json.dumps([{"role": "user", "content": question}])
            key = hashlib.sha256(question.encode()).hexdigest()
        trace, value = uuid.UUID(int=draw.getrandbits(128)).hex, float(draw.random() < 0.5)
        yield (
            empty
            | {
                "id": trace,
                "agent_id": agent.pk,
                "prompt": prompt,
                "prompt_key": key,
                "external_id": f"answer-{number}",
            }
            | {"response": f"{number}: {_text(draw, draw.randint(30, 60))}", "reward_pending": False}
            | {"occurred_at": now, "created_at": now},
            {"agent_id": agent.pk, "trace_id": trace, "kind": "rating", "rater": f"device:{draw.randint(1, 50)}"}
            | {"source": "api", "scale": "thumb", "raw_value": value, "value": value, "is_current": True}
            | {"rated_at": now, "created_at": now, "tags": "[]"}
            | dict.fromkeys(("choice", "text", "metric", "notes", "address"), ""),
        )


def _text(draw: random.Random, words: int) -> str:
    return " ".join(draw.choices(WORDS, k=words))
