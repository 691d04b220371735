"""Trains in a thread, while the agent goes on; one training at a time.

Sessions and their history are in ``session_history.json``, as the tools of ToolBoxV2's agent keep them."""

from __future__ import annotations

import json
import logging
import threading
import uuid
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from rl.base.errors import BadFile, Interrupted
from rl.base.files import write_json
from rl.from_systems import toolbox
from rl.from_systems.toolbox.ollama import GGUFExporter, OllamaDeployer
from rl.from_systems.toolbox.training_pipeline import TrainingPipeline

logger = logging.getLogger(__name__)
Answer = dict[str, Any]
FILE = "session_history.json"


class RLTrainingManager:
    """``storage_path``: by default ``~/.toolbox/rl_training``; traces are looked for beside it. Raises BadFile for a history
    that cannot be read."""

    def __init__(self, storage_path: Path | str | None = None) -> None:
        self.storage_path = Path(storage_path) if storage_path else toolbox.data_folder() / toolbox.TRAINING
        self.storage_path.mkdir(parents=True, exist_ok=True)
        self.history = TrainingHistory.read(self.storage_path)
        self.current_session: TrainingSession | None = None
        self._pipeline: TrainingPipeline | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def start_training(
        self,
        model_name: str,
        base_model: str = "Qwen/Qwen2.5-0.5B-Instruct",
        method: str = "grpo",
        agent_name: str = "default",
        num_epochs: int = 3,
        learning_rate: float = 5e-5,
    ) -> Answer:
        """Returns at once. Raises UsageError for an unknown method."""
        running = self.current_session
        if running and running.state.is_active:
            return _failure("a training is in progress already", session_id=running.session_id)
        folder = self.storage_path / model_name
        traces = self.storage_path.parent / toolbox.TRACES
        self._pipeline = TrainingPipeline(agent_name, base_model, folder, method, storage_path=traces)
        config = self._pipeline.training_config
        config.num_epochs, config.learning_rate = num_epochs, learning_rate
        session_id = f"train_{local_time():%Y%m%d_%H%M%S}_{uuid.uuid4().hex[:6]}"
        session = TrainingSession(session_id, model_name, base_model, method, TrainingState.STARTING, now())
        session.output_dir, self.current_session = str(folder), session
        self._stop.clear()
        self._thread = threading.Thread(target=self._train, args=(self._pipeline, session), daemon=True)
        self._thread.start()
        started = {"session_id": session.session_id, "method": method, "output_dir": session.output_dir}
        return {"success": True, **started, "message": f"{model_name} is trained from {base_model}"}

    def stop_training(self, deploy: bool = True, model_name: str | None = None) -> Answer:
        """Waits for the step to end, saves what was learned until then, and deploys it."""
        session = self.current_session
        if session is None:
            return _failure("nothing is trained")
        if not session.state.is_active:
            return _failure(f"the training does not run: it is {session.state.value}", session_id=session.session_id)
        session.state = TrainingState.STOPPING
        self._stop.set()
        self.wait()
        if session.state is TrainingState.FAILED:
            return _failure(str(session.error_message), session_id=session.session_id)
        answer = {"session_id": session.session_id, "output_dir": session.output_dir}
        if not deploy:
            return {"success": True, **answer, "message": "the training is stopped and the model saved"}
        deployed = self._deploy(session, model_name)
        return {**answer, "deployed_model": deployed.get("ollama_model"), **deployed}

    def check_training_status(self) -> Answer:
        session = self.current_session
        if session is None:
            last = self.history.sessions[-1].to_dict() if self.history.sessions else None
            message = "the last training" if last else "nothing was trained yet"
            return {"has_active_session": False, "session": last, "message": message}
        share = session.current_step / session.total_steps if session.total_steps else 0.0
        return {
            "has_active_session": session.state.is_active,
            "session": session.to_dict(),
            "progress_percent": round(100 * share, 2),
            "elapsed_seconds": session.elapsed_seconds,
            "is_running": session.state is TrainingState.RUNNING,
        }

    def switch_model(self, model_name: str) -> Answer:
        """Deploys it where that was not done."""
        if at_ollama := self.history.active_models.get(model_name):
            return _tell_switched(model_name, at_ollama)
        sessions = self.history.sessions
        session = next((known for known in reversed(sessions) if known.model_name == model_name), None)
        if session is None:
            names = dict.fromkeys([*self.history.active_models, *(known.model_name for known in sessions)])
            return _failure(f"there is no model {model_name!r}", available_models=list(names))
        if session.deployed_model_name:
            return self._activate(session, session.deployed_model_name)
        return self._deploy(session, None)

    def list_models(self) -> Answer:
        models = [
            {
                "name": session.model_name,
                "base_model": session.base_model,
                "method": session.method,
                "state": session.state.value,
                "deployed": session.deployed_model_name is not None,
                "ollama_model": session.deployed_model_name,
                "trained_at": session.end_time or session.start_time,
            }
            for session in self.history.sessions
        ]
        return {"models": models, "active_models": self.history.active_models, "total": len(models)}

    def wait(self) -> None:
        """Until the training has ended."""
        if self._thread is not None:
            self._thread.join()

    def _train(self, pipeline: TrainingPipeline, session: TrainingSession) -> None:
        try:
            session.state = TrainingState.RUNNING
            try:
                pipeline.train(report=self._report)
            except Interrupted:
                logger.info("the training of %s was stopped", session.model_name)
            session.output_dir = pipeline.save()
            session.end(TrainingState.COMPLETED)
        except Exception as error:
            logger.exception("the training of %s failed", session.model_name)
            session.end(TrainingState.FAILED, str(error))
        if session not in self.history.sessions:
            self.history.sessions.append(session)
        self.history.save()

    def _report(self, event: str, values: dict[str, Any]) -> None:
        if self._stop.is_set():
            raise Interrupted("the agent stopped the training")
        if event == "step" and self.current_session and "loss" in values.get("metrics", {}):
            session = self.current_session
            session.current_step, session.total_steps = values["step"], values["total_steps"]
            session.current_loss = values["metrics"]["loss"]

    def _deploy(self, session: TrainingSession, name: str | None) -> Answer:
        try:
            gguf = GGUFExporter(session.output_dir).convert("Q4_K_M")
            deployed = OllamaDeployer().create_model(name or f"toolbox-{session.model_name}", gguf)
        except Exception as error:
            logger.exception("%s cannot be deployed", session.model_name)
            return _failure(f"{session.model_name} cannot be deployed: {error}", model_path=session.output_dir)
        return self._activate(session, deployed)

    def _activate(self, session: TrainingSession, at_ollama: str) -> Answer:
        session.deployed_model_name = self.history.active_models[session.model_name] = at_ollama
        self.history.save()
        return _tell_switched(session.model_name, at_ollama)


def _tell_switched(model_name: str, at_ollama: str) -> Answer:
    known = {"model_name": model_name, "ollama_model": at_ollama}
    return {"success": True, **known, "message": f"{model_name} is {at_ollama} at Ollama"}


def _failure(problem: str, **more: Any) -> Answer:
    return {"success": False, "error": problem, **more}


@cache
def manager() -> RLTrainingManager:
    """That of the agent's tools."""
    return RLTrainingManager()


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


@dataclass
class TrainingHistory:
    folder: Path
    sessions: list[TrainingSession] = field(default_factory=list)
    active_models: dict[str, str] = field(default_factory=dict)
    """Name of a model to its name at Ollama."""

    @classmethod
    def read(cls, folder: Path) -> TrainingHistory:
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

    def save(self) -> None:
        rows = [session.to_dict() for session in self.sessions[-50:]]
        write_json(self.folder / FILE, {"sessions": rows, "active_models": self.active_models})
