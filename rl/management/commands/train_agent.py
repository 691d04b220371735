"""Train agents with tools on tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction
from rich.table import Table

from rl.config import TrainingConfig
from rl.from_systems.miniagent.command_line import policy_type_of
from rl.management.agent_options import (
    AgentOptions,
    EpisodeGroup,
    agent_for,
    require_file,
    require_possible,
    with_environment,
    with_file,
    with_model,
)
from rl.management.base import RatchetCommand
from rl.management.options import add_arguments
from rl.management.tables import task_table
from rl.management.training import train_command
from rl.management.training_options import add_training_options, run_options, training_config
from rl.models import Agent
from rl.runs.run import RunOptions, tasks_of


class Command(RatchetCommand):
    help = "Train an agent that calls tools, by GRPO of whole episodes in an environment."
    options = AgentOptions

    def add_options(self, parser: CommandParser) -> None:
        add_training_options(parser, AgentOptions)
        add_arguments(parser, EpisodeGroup, "episodes")

    def run(self, options: AgentOptions) -> None:
        file = None
        self._shown: dict[str, Any] = {}
        if options.run is not None:
            train_command(self, "agent", options)
            return
        options = with_environment(options)
        require_file(options)
        options = with_model(options)
        if options.config:
            options, file, notes = with_file(options, Path(options.config).expanduser())
            for note in notes:
                self.report("log", {"text": note})
        shown, policy_type = options.preview_tasks or 0, policy_type_of(options.policy_type)
        options = replace(options, preview_tasks=None, policy_type=policy_type)
        require_possible(options)
        with transaction.atomic():
            agent = agent_for(options)
            config, chosen = training_config(agent, "agent", options, file), run_options(agent, options)
            if shown > 0 and options.resume is None:
                self._show(agent, config, chosen, shown)
            if options.dry_run:
                train_command(self, "agent", options, file)
                transaction.set_rollback(True)
                return
        train_command(self, "agent", options, file)

    def result(self, document: Mapping[str, Any], *tables: Table, lines: Sequence[str] = ()) -> None:
        super().result({**document, **self._shown}, *tables, lines=lines)

    def _show(self, agent: Agent, config: TrainingConfig, options: RunOptions, most: int) -> None:
        """For people at once, and in the one JSON document that comes at the end."""
        tasks = tasks_of(agent, config, options).train[:most]
        self._shown = {"tasks": list(tasks)}
        if not self.as_json:
            super().result({}, task_table(tasks))
