"""Importing a file of rated answers, beside inserting rows that are ready."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from django.utils import timezone

from benchmarks.import_traces import write_answers
from benchmarks.speed_contest import Way, compete
from benchmarks.speed_database import Ready, count_answers, database, insert_by_orm, insert_ready, sum_up
from rl.collect.importers import reader
from rl.collect.ingest.importing import import_files
from rl.collect.traces.imported import ImportedTrace
from rl.models import Agent, Feedback, Trace, prompt_key

FORMAT: Final = "trl"


@dataclass(frozen=True)
class Rows:
    """Of one pass: made before it is timed."""

    agent: Agent
    traces: list[Trace]
    ratings: list[Feedback]


def run(base: Path, folder: Path, rounds: int, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """The "loss" sums up what is stored."""
    with database(folder):
        file = write_answers(folder / "answers.jsonl", count_answers(rounds))
        raw = [prepare(file, f"raw-{number}") for number in range(rounds)]
        ready = [(rows.agent, Ready(rows.traces), Ready(rows.ratings)) for rows in raw]
        by_orm = [prepare(file, f"orm-{number}") for number in range(rounds)]
        own = [Agent.objects.create(name=f"own-{number}") for number in range(rounds)]
        known = Agent.objects.create(name="known")
        import_files(FORMAT, [file], agent=known)

        def insert(number: int) -> float:
            agent, traces, ratings = ready[number]
            insert_ready(traces, ratings)
            return sum_up(agent)

        def create(number: int) -> float:
            insert_by_orm(by_orm[number].traces, by_orm[number].ratings)
            return sum_up(by_orm[number].agent)

        def take(agent: Agent) -> float:
            import_files(FORMAT, [file], agent=agent)
            return sum_up(agent)

        ways = [
            Way("raw inserts", insert),
            Way("bulk_create", create),
            Way("ours, what is known", lambda number: take(known)),
            Way("ours", lambda number: take(own[number])),
        ]
        return compete(ways, rounds, tell)


def prepare(file: Path, name: str) -> Rows:
    agent = Agent.objects.create(name=name)
    records = [record for record in reader(FORMAT).read(file) if isinstance(record, ImportedTrace)]
    traces = [_trace(agent, record) for record in records]
    ratings = [_rating(trace, record) for trace, record in zip(traces, records, strict=True)]
    return Rows(agent, traces, ratings)


def _trace(agent: Agent, record: ImportedTrace) -> Trace:
    prompt = [dict(message) for message in record.prompt]
    about = {"external_id": record.external_id, "source": FORMAT, "prompt_key": prompt_key(record.prompt)}
    return Trace(agent=agent, prompt=prompt, response=record.response, **about)


def _rating(trace: Trace, record: ImportedTrace) -> Feedback:
    (said,) = record.feedback
    about = {"rater": said.rater, "source": FORMAT, "scale": said.scale, "rated_at": timezone.now()}
    return Feedback(
        agent=trace.agent, trace=trace, kind="rating", raw_value=said.value, value=said.value, tags=[], **about
    )
