"""Worlds in which an agent with tools is tried: tasks in, observations and rewards out. No Django, no torch.

Imports: base, config, data_formatter, rewards, sandbox."""

from functools import partial
from importlib import import_module

from rl.base.errors import UsageError
from rl.base.leaves import lazy_name
from rl.base.names import unknown_name
from rl.environments.base import AgentEnv
from rl.environments.tools import BaseTool, ToolFailed, ToolRegistry

ENVIRONMENTS: dict[str, str] = {
    "code_exec": "rl.environments.code_exec:CodeExecEnv",
    "search": "rl.environments.search:SearchEnv",
    "replay": "rl.environments.replay:ReplayEnv",
    "program": "rl.environments.program.environment:ProgramEnv",
}
_CLASSES = {path.partition(":")[2]: path.replace(":", ".") for path in ENVIRONMENTS.values()}
__all__ = ["ENVIRONMENTS", "AgentEnv", "BaseTool", "ToolFailed", "ToolRegistry", "environment_class", *_CLASSES]
__getattr__ = partial(lazy_name, __name__, paths=_CLASSES)


def environment_class(name: str) -> type[AgentEnv]:
    """A name of ENVIRONMENTS, or the path of a class of your own, ``package.module:Class``. Raises UsageError."""
    path = ENVIRONMENTS.get(name, name)
    module, _, attribute = path.partition(":")
    if not attribute:
        raise UsageError(unknown_name("environment", name, ENVIRONMENTS, "your own as module:Class"))
    try:
        kind = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"there is no environment {path}: {error}") from None
    except Exception as error:  # it is somebody's own
        raise UsageError(f"{module} cannot be imported: {type(error).__name__}: {error}") from error
    if not (isinstance(kind, type) and issubclass(kind, AgentEnv)):
        raise UsageError(f"{path} is not an environment: it must be a class made from rl.environments.AgentEnv")
    return kind
