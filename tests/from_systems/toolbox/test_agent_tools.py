"""Trainings that an agent starts by its tools, on the tiny model."""

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import BadFile, UsageError
from rl.from_systems.toolbox import (
    RLTrainingManager,
    TraceCollector,
    agent_tools,
    register_rl_tools,
    training_manager,
)
from rl.from_systems.toolbox.training_manager import TrainingState
from tests.export.ollama_double import OllamaDouble
from tests.from_systems.toolbox.test_training import SMALL, kto_examples

pytestmark = pytest.mark.learn


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RLTrainingManager:
    collector = TraceCollector(tmp_path / "rl_traces")
    for example in kto_examples():
        collector.start_trace("s", example.prompt.removeprefix("User: "))
        collector.label_trace(collector.finish_trace(example.completion).trace_id, example.label)
    made = RLTrainingManager(tmp_path / "rl_training")
    for module in (training_manager, agent_tools):
        monkeypatch.setattr(module, "manager", lambda: made)
    original = training_manager.TrainingPipeline

    def small(*values: Any, **names: Any) -> Any:
        pipeline = original(*values, **names)
        for name, value in SMALL.items():
            setattr(pipeline.training_config, name, value)
        return pipeline

    monkeypatch.setattr(training_manager, "TrainingPipeline", small)
    return made


def tool(name: str) -> Callable[..., str]:
    function = {name: function for function, name, _ in agent_tools.get_rl_training_tools()}[name]
    return lambda *values, **names: asyncio.run(function(*values, **names))


def test_a_training_is_started_watched_and_deployed(manager: RLTrainingManager, tiny_base: Path, double: OllamaDouble):
    assert tool("list_rl_models")() == "No model was trained yet: start_rl_training makes one."
    started = tool("start_rl_training")("assistant-v1", str(tiny_base), method="kto", num_epochs=1)
    assert started.startswith("✓ assistant-v1 is trained from")
    assert "a training is in progress already" in tool("start_rl_training")("another", str(tiny_base), method="kto")
    manager.wait()
    status = tool("check_training_status")()
    assert "State: completed" in status
    assert "Method: kto" in status
    assert "○ assistant-v1: KTO from" in tool("list_rl_models")()
    assert "✓ Switched to model: toolbox-assistant-v1" in tool("switch_rl_model")("assistant-v1")
    assert "toolbox-assistant-v1:latest" in double.models
    assert tool("list_rl_models")().startswith("✓ assistant-v1")
    stored = json.loads((manager.storage_path / "session_history.json").read_text())
    assert stored["active_models"] == {"assistant-v1": "toolbox-assistant-v1"}
    assert stored["sessions"][0]["state"] == "completed"
    again = RLTrainingManager(manager.storage_path)
    assert again.switch_model("assistant-v1")["ollama_model"] == "toolbox-assistant-v1"
    assert again.check_training_status()["session"]["model_name"] == "assistant-v1"


def test_a_training_that_is_stopped_leaves_the_model_of_its_last_step(manager: RLTrainingManager, tiny_base: Path):
    manager.start_training("long", str(tiny_base), "kto", num_epochs=500)
    while not manager.check_training_status()["session"]["current_step"]:
        assert manager.check_training_status()["has_active_session"]
    stopped = tool("stop_rl_training")(deploy=False)
    session = manager.current_session
    assert session is not None
    assert stopped == f"✓ The training is stopped, and the model saved\nOutput: {session.output_dir}"
    assert session.current_step < session.total_steps
    saved = {path.name for path in Path(session.output_dir).iterdir()}
    assert {"model.safetensors", "tokenizer.json", "training_stats.json"} <= saved
    assert "it is completed" in tool("stop_rl_training")()


def test_a_failure_is_told(manager: RLTrainingManager, tiny_base: Path, tmp_path: Path):
    assert tool("stop_rl_training")() == "✗ nothing is trained"
    assert tool("check_training_status")() == "nothing was trained yet"
    assert "✗ there is no model 'x'" in tool("switch_rl_model")("x")
    shutil.rmtree(manager.storage_path.parent / "rl_traces")
    manager.start_training("empty", str(tiny_base), "grpo")
    manager.wait()
    assert manager.current_session is not None
    assert manager.current_session.state is TrainingState.FAILED
    assert "examples for grpo" in tool("check_training_status")()
    with pytest.raises(UsageError, match="unknown method"):
        manager.start_training("wrong", str(tiny_base), "ppo")
    (tmp_path / "session_history.json").write_text("[]")
    with pytest.raises(BadFile, match="not a history of trainings"):
        RLTrainingManager(tmp_path)


class Agent:
    def __init__(self) -> None:
        self.tools: dict[str, str] = {}

    async def add_tool(self, function: Any, *, name: str, description: str) -> None:
        assert asyncio.iscoroutinefunction(function)
        self.tools[name] = description


def test_an_agent_gets_the_five_tools():
    alone, within = Agent(), Agent()
    register_rl_tools(alone)

    async def register() -> None:
        register_rl_tools(within)
        await asyncio.sleep(0)

    asyncio.run(register())
    assert sorted(alone.tools) == [
        "check_training_status",
        "list_rl_models",
        "start_rl_training",
        "stop_rl_training",
        "switch_rl_model",
    ]
    assert within.tools == alone.tools
    assert all(description.endswith(".") for description in alone.tools.values())
