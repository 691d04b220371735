"""Tasks of agents with tools."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rl.base.errors import UsageError
from rl.base.messages import asks_nothing
from rl.base.records import Message
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.plan.shortage import plural
from rl.dataset_builder.read.groups import NO_WORDS, PromptGroup, PromptRows, Source, Tally
from rl.environments.base import AgentEnv
from rl.environments.settings import EnvironmentSettings
from rl.models import Agent, prompt_key

ASKED_TWICE = "task asks what another asks"
HELD_OUT_TOO = "task is held out too"


@dataclass(frozen=True, slots=True)
class TaskSource:
    """Tasks of an environment; which are held out is said, not drawn."""

    settings: EnvironmentSettings
    train: Sequence[Mapping[str, Any]]
    held_out: Sequence[Mapping[str, Any]]
    name: str = "tasks"
    has_ids: bool = False
    remarks: tuple[str, ...] = ()
    """Sentences about them, for the log."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Reason to how many tasks there might have been."""

    def fixtures(self) -> Mapping[str, tuple[str, ...]]:
        return {}

    def groups(self, tally: Tally) -> Iterator[PromptGroup]:  # noqa: ARG002  as others of its kind
        yield from ()

    @property
    def held_out_share(self) -> float:
        return min(0.9, len(self.held_out) / max(1, len(self.train) + len(self.held_out)))


class TaskRows:
    """Methods for agents with tools: every task once, in the order given, with the chat that it begins with."""

    def __init__(self, agent: Agent, source: Source, options: DataOptions, tally: Tally) -> None:  # noqa: ARG002  as others of its kind
        """Raises UsageError where the source has no tasks."""
        if not isinstance(source, TaskSource):
            raise UsageError("agents learn from tasks: say where they are by --dataset-dir")
        self._agent, self._source, self._tally = agent, source, tally
        tally.details["environment"] = asdict(source.settings)
        tally.skipped.update(source.left_out)

    def prompts(self) -> Iterator[PromptRows]:
        seen: dict[str, str] = {}
        environment = replace(self._source.settings, tools={}).build()
        for held_out, tasks in ((True, self._source.held_out), (False, self._source.train)):
            for task in tasks:
                self._tally.prompts_read += 1
                prompt = self._prompt(environment, task)
                key = prompt_key(prompt)
                if asks_nothing(prompt):
                    self._tally.skipped[NO_WORDS] += 1
                    continue
                if key in seen:
                    self._tally.skipped[HELD_OUT_TOO if seen[key] and not held_out else ASKED_TWICE] += 1
                    continue
                seen[key] = "held out" if held_out else ""
                self._tally.prompts += 1
                row = {"prompt": prompt, "prompt_key": key, "split_key": key, "task": dict(task)}
                yield PromptRows(held_out, [row])

    def _prompt(self, environment: AgentEnv, task: Mapping[str, Any]) -> list[Message]:
        """Raises UsageError: what somebody's environment raises can be anything."""
        try:
            return environment.reset(task)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise UsageError(
                f"{self._source.settings.type} cannot begin the task {task.get('task_id')}: {what}"
            ) from error

    def problem(self, train: int, held_out: int) -> str:
        if train:
            return ""
        return (
            f"there is no task to train on, and {plural(held_out, 'held-out task')}: put tasks into the training split"
        )
