"""Files that hold a person's words: answers on their way into the database, frozen rows, and what was trained on them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings

from rl.base.files import remove
from rl.forgetting.records import Person, Uses, is_in_use
from rl.lm.score_folder import score_folder
from rl.serving.gateway import pending
from rl.versions.versions import version_directory

_COMMAND = "run this command again with --delete-files"


@dataclass(slots=True)
class Swept:
    """``kept``: path to what to do about it. Paths are relative to DATA_DIR, or absolute elsewhere."""

    deleted: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)


def delete_waiting(person: Person) -> list[str]:
    """Answers that the database has not: those that were set aside, are still streamed, or wait in an outbox."""
    here = list(waiting_files(person))
    for path in here:
        remove(path)
    return [_name(path) for path in here]


def waiting_files(person: Person) -> Iterator[Path]:
    for folder in (pending.folder(), settings.DATA_DIR / "rl_outbox"):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.is_file() and _is_theirs(person, _first_document(path)):
                yield path


def delete_scores() -> list[str]:
    """What models made of answers, as digests and numbers: those of others too, since some were computed beside theirs."""
    if not score_folder().exists():
        return []
    remove(score_folder())
    return [_name(score_folder())]


def sweep(uses: Uses, *, delete: bool) -> Swept:
    """Removes what may go, if asked to; names the rest. Safe to repeat."""
    swept = Swept()
    for path, why in _holding(uses):
        if path.exists() and (why or not delete):
            swept.kept[_name(path)] = why or _COMMAND
        elif path.exists():
            remove(path)
            swept.deleted.append(_name(path))
    if delete:
        for version in uses.versions:
            if not version_directory(version).exists():
                for artifact in version.artifacts.all():
                    if not Path(artifact.path).is_absolute():
                        artifact.delete()
    return swept


def _holding(uses: Uses) -> Iterator[tuple[Path, str]]:
    """Each path, and why it has to stay; empty: it may go."""
    active = {run.training_set_id for run in uses.runs if run.is_active}
    for training_set in uses.training_sets:
        busy = training_set.pk in active
        yield training_set.directory, "a run is at work on it: wait for its end, and " + _COMMAND if busy else ""
    for run in uses.runs:
        yield run.directory, f"run {run.pk} is at work: wait for its end, and {_COMMAND}" if run.is_active else ""
    for version in uses.versions:
        in_use = f"{version.name} is in use: put another version in its place, and {_COMMAND}"
        yield version_directory(version), in_use if is_in_use(version) else ""
        for artifact in version.artifacts.all():
            if Path(artifact.path).is_absolute():
                yield Path(artifact.path), "lies outside of Ratchet's folder: delete it by hand"


def _first_document(path: Path) -> dict[str, Any]:
    """A file of one document, or a stream whose first line is one; empty where it cannot be read."""
    try:
        with path.open("rb") as lines:
            document = json.loads(next(lines, b"{}"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _is_theirs(person: Person, document: dict[str, Any]) -> bool:
    if person.agent is not None and document.get("agent_id", person.agent.pk) != person.agent.pk:
        return False
    session = str(document.get("session_id", ""))
    own_sessions = tuple(f"try-{user_id}-" for user_id in person.user_ids)
    names = {str(document.get(key)) for key in ("unit", "session_id", "user", "rater")}
    return bool(names & set(person.names)) or (bool(own_sessions) and session.startswith(own_sessions))


def _name(path: Path) -> str:
    inside = path.is_relative_to(settings.DATA_DIR)
    return str(path.relative_to(settings.DATA_DIR)) if inside else str(path)
