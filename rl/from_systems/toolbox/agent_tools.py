"""Trainings as tools of ToolBoxV2's agent: each returns a few lines of text."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from rl.from_systems.toolbox.training_manager import manager

Tool = Callable[..., Awaitable[str]]
_LABELS: Mapping[str, str] = {
    "session_id": "Session",
    "model_name": "Model",
    "base_model": "Base",
    "method": "Method",
    "state": "State",
    "current_loss": "Loss",
    "deployed_model_name": "Deployed",
    "error_message": "Error",
}


async def start_rl_training(
    model_name: str,
    base_model: str = "Qwen/Qwen2.5-0.5B-Instruct",
    method: str = "grpo",
    agent_name: str = "default",
    num_epochs: int = 3,
) -> str:
    """Starts a training and returns at once; check_training_status tells how far it is.

    Args:
        model_name: Name of the new model.
        base_model: A folder or a hub id.
        method: grpo or kto.
        agent_name: Whose traces to learn from.
        num_epochs: Passes over the data."""
    answer = await asyncio.to_thread(manager().start_training, model_name, base_model, method, agent_name, num_epochs)
    if not answer["success"]:
        return f"✗ No training was started: {answer['error']}"
    return f"✓ {answer['message']} by {method}\nSession ID: {answer['session_id']}\nOutput: {answer['output_dir']}"


async def stop_rl_training(deploy: bool = True) -> str:
    """Stops the training after its step, saves the model, and deploys it.

    Args:
        deploy: Whether Ollama gets the model."""
    answer = await asyncio.to_thread(manager().stop_training, deploy)
    if not answer["success"]:
        return f"✗ {answer['error']}"
    text = f"✓ The training is stopped, and the model saved\nOutput: {answer['output_dir']}"
    return f"{text}\nDeployed as: {answer['deployed_model']}" if deploy else text


async def check_training_status() -> str:
    """Tells how far the training is, or how the last one ended."""
    answer = manager().check_training_status()
    session = answer["session"]
    if session is None:
        return str(answer["message"])
    lines = [f"{label}: {session[name]}" for name, label in _LABELS.items() if session.get(name)]
    if answer.get("is_running"):
        step = f"{session['current_step']}/{session['total_steps']}"
        lines.append(f"Progress: {answer['progress_percent']:.1f}% (step {step})")
        lines.append(f"Elapsed: {answer['elapsed_seconds'] / 60:.1f} minutes")
    return "\n".join(lines)


async def switch_rl_model(model_name: str) -> str:
    """Makes a trained model the one in use; deploys it where that was not done.

    Args:
        model_name: Its name."""
    answer = await asyncio.to_thread(manager().switch_model, model_name)
    if answer["success"]:
        return f"✓ Switched to model: {answer['ollama_model']}\nTry it: ollama run {answer['ollama_model']}"
    known = answer.get("available_models", [])
    return "\n".join([f"✗ {answer['error']}", *([f"Available models: {', '.join(known)}"] if known else [])])


async def list_rl_models() -> str:
    """Lists the models that were trained."""
    answer = manager().list_models()
    if not answer["models"]:
        return "No model was trained yet: start_rl_training makes one."
    lines = []
    for model in answer["models"]:
        mark, made = "✓" if model["deployed"] else "○", f"{model['method'].upper()} from {model['base_model']}"
        at_ollama = f", at Ollama as {model['ollama_model']}" if model["ollama_model"] else ""
        lines.append(f"{mark} {model['name']}: {made}, {model['state']}{at_ollama}")
    return "\n".join([*lines, f"Total: {answer['total']} models"])


def get_rl_training_tools() -> list[tuple[Tool, str, str]]:
    """Function, name and description of each."""
    tools: list[Tool] = [start_rl_training, stop_rl_training, check_training_status, switch_rl_model, list_rl_models]
    return [(tool, tool.__name__, (tool.__doc__ or "").partition("\n")[0]) for tool in tools]


def register_rl_tools(agent: Any) -> None:
    """Gives them to an agent, whose ``add_tool(function, name=…, description=…)`` may be a coroutine; then in the running
    loop, or in one of its own where none runs."""
    added = [agent.add_tool(tool, name=name, description=about) for tool, name, about in get_rl_training_tools()]
    waiting = [result for result in added if asyncio.iscoroutine(result)]
    if not waiting:
        return
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(_all(waiting))
    else:
        _KEPT.extend(loop.create_task(work) for work in waiting)


async def _all(waiting: list[Any]) -> None:
    await asyncio.gather(*waiting)


_KEPT: list[asyncio.Task[Any]] = []
"""A loop forgets tasks that nobody holds."""
