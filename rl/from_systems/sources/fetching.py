"""A round through all sources, which the queue makes every minute: each goes on where its last one ended.

What a source has told so far stands in a file of DATA_DIR/sources. Without it everything is fetched anew, and nothing is
stored twice.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.utils import timezone

from rl.base.errors import RatchetError, SourceFailed
from rl.base.files import write_json
from rl.base.locks import try_lock
from rl.collect.traces.write import TraceStore
from rl.from_systems.sources.asking import Position, SourceClient, asking
from rl.from_systems.sources.registered import SYSTEMS, FeedbackSource, sources
from rl.models import Agent

ROUND_SECONDS: Final = 40.0
"""For all sources together; the rest waits for the next minute."""
AT_ONCE: Final = 20
"""Stored in one go."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """How far a source has been read."""

    changed: int = 0
    id: str = ""
    """Behind these all is new: seconds since 1970, and an id."""
    stored: int = 0
    """Opinions of people that came from it, in all."""
    refused: int = 0
    reason: str = ""
    """Why the last one was refused."""
    asked_at: str = ""
    error: str = ""
    """What was wrong with the last round; empty: nothing."""


def fetch_all() -> dict[str, int]:
    """How many opinions are new, by source. A source that fails holds no other one up. Raises BadFile."""
    known = sources()
    return {name: fetch(source, ROUND_SECONDS / len(known)).stored for name, source in known.items()}


def fetch(source: FeedbackSource, seconds: float = ROUND_SECONDS) -> SourceProgress:
    """What came of one round; ``stored`` counts those of the round alone."""
    before = progress_of(source)
    with _alone(source) as is_alone:
        if not is_alone:
            return replace(before, stored=0, error="another process asks this source right now")
        progress = replace(before, asked_at=timezone.now().isoformat(timespec="seconds"), error="")
        try:
            for latest in _rounds(source, progress, seconds):
                progress = latest
                _write(source, progress)
        except RatchetError as error:
            progress = replace(progress, error=str(error))
            if progress.error != before.error:
                logger.warning("%s", error)
        _write(source, progress)
    return replace(progress, stored=progress.stored - before.stored)


def progress_of(source: FeedbackSource) -> SourceProgress:
    try:
        return SourceProgress(**json.loads(_file(source).read_text()))
    except FileNotFoundError:
        return SourceProgress()
    except (ValueError, TypeError):
        raise SourceFailed(f"{_file(source)} is damaged: delete it, and {source.name} is read anew") from None


def _rounds(source: FeedbackSource, progress: SourceProgress, seconds: float) -> Iterator[SourceProgress]:
    """What is new, in short transactions, and how far that is. Raises SourceFailed, UsageError, RunConflict."""
    module = import_module(SYSTEMS[source.system])
    agent = Agent.objects.filter(name__iexact=source.agent).first() or Agent(name=source.agent)
    with asking(source, seconds, module.authorization) as client:
        for fetched, (changed, last) in _new_ones(module, client, (progress.changed, progress.id)):
            store = TraceStore(module.FORMAT, agent=agent)
            store.take(module.read(fetched, source))
            progress = replace(progress, changed=changed, id=last, **_count_in(progress, store))
            yield progress


def _new_ones(module: Any, client: SourceClient, position: Position) -> Iterator[tuple[list[Any], Position]]:
    """What is behind the position, oldest first, and the position behind it. Raises SourceFailed."""
    listed = module.list_all(client, position[0])
    fetched: list[Any] = []
    for reached, entry in sorted((row for row in listed.entries if row[0] > position), key=itemgetter(0)):
        position = reached
        fetched.append(module.fetch(client, entry))
        if client.is_late or len(fetched) == AT_ONCE:
            yield fetched, position
            fetched = []
        if client.is_late:
            return
    if listed.asked_at:
        position = int(listed.asked_at.timestamp()) - module.OVERLAP_SECONDS, ""
    yield fetched, position


def _count_in(progress: SourceProgress, store: TraceStore) -> dict[str, Any]:
    skipped, feedback = store.report.skipped, store.report.feedback
    reason = next(iter(skipped), progress.reason)
    return {
        "stored": progress.stored + feedback.imported + feedback.updated,
        "refused": progress.refused + skipped.total(),
        "reason": reason[:500],
    }


@contextmanager
def _alone(source: FeedbackSource) -> Iterator[bool]:
    lock = settings.DATA_DIR / "locks" / f"source-{source.name}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        yield try_lock(handle.fileno())


def _file(source: FeedbackSource) -> Path:
    return settings.DATA_DIR / "sources" / f"{source.name}.json"


def _write(source: FeedbackSource, progress: SourceProgress) -> None:
    file = _file(source)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, asdict(progress))


def forget(source: FeedbackSource) -> None:
    with suppress(FileNotFoundError):
        _file(source).unlink()
