"""ToolBoxV2's training sessions and their history, ``session_history.json``, as its agent's tools keep them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

from rl.base.errors import BadFile
from rl.base.files import write_json

MOST_KEPT = 50
FILE = "session_history.json"


class TrainingState(Enum):
    IDLE = "idle"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"

    @property
    def is_active(self) -> bool:
        return self in (TrainingState.STARTING, TrainingState.RUNNING, TrainingState.STOPPING)


@dataclass
class TrainingSession:
    session_id: str
    model_name: str
    base_model: str
    method: str
    state: TrainingState = TrainingState.IDLE
    start_time: str | None = None
    end_time: str | None = None
    current_step: int = 0
    total_steps: int = 0
    current_loss: float = 0.0
    error_message: str | None = None
    output_dir: str = ""
    """The model's, once it is saved."""
    deployed_model_name: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "state": self.state.value}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainingSession:
        known = {item.name for item in fields(cls)}
        kept = {name: value for name, value in values.items() if name in known}
        return cls(**{**kept, "state": TrainingState(kept.get("state", "idle"))})

    @property
    def elapsed_seconds(self) -> float | None:
        if self.start_time is None:
            return None
        end = datetime.fromisoformat(self.end_time) if self.end_time else local_time()
        return (end - datetime.fromisoformat(self.start_time)).total_seconds()

    def end(self, state: TrainingState, error: str | None = None) -> None:
        self.state, self.error_message, self.end_time = state, error, now()


def now() -> str:
    """Local time without a zone, as ToolBoxV2 writes it."""
    return local_time().isoformat()


def local_time() -> datetime:
    return datetime.now(UTC).astimezone().replace(tzinfo=None)


def new_id() -> str:
    return f"train_{local_time():%Y%m%d_%H%M%S}_{uuid.uuid4().hex[:6]}"


@dataclass
class History:
    folder: Path
    sessions: list[TrainingSession] = field(default_factory=list)
    active_models: dict[str, str] = field(default_factory=dict)
    """Name of a model to its name at Ollama."""

    @classmethod
    def read(cls, folder: Path) -> History:
        """Empty where there is none yet. Raises BadFile."""
        file = folder / FILE
        if not file.exists():
            return cls(folder)
        try:
            values = json.loads(file.read_text("utf-8"))
            sessions = [TrainingSession.from_dict(row) for row in values.get("sessions", [])]
            return cls(folder, sessions, dict(values.get("active_models", {})))
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise BadFile(file, f"is not a history of trainings ({error})") from error

    def add(self, session: TrainingSession) -> None:
        if session not in self.sessions:
            self.sessions.append(session)
        self.save()

    def save(self) -> None:
        rows = [session.to_dict() for session in self.sessions[-MOST_KEPT:]]
        write_json(self.folder / FILE, {"sessions": rows, "active_models": self.active_models})

    def newest_of(self, model_name: str) -> TrainingSession | None:
        return next((session for session in reversed(self.sessions) if session.model_name == model_name), None)

    def names(self) -> Iterator[str]:
        yield from dict.fromkeys([*self.active_models, *(session.model_name for session in self.sessions)])
