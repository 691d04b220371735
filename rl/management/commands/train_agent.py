"""Train agents with tools on tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction

from rl.config import TrainingConfig
from rl.management.agent_options import (
    AgentOptions,
    add_agent_options,
    agent_for,
    require_device,
    require_file,
    with_file,
)
from rl.management.base import RatchetCommand
from rl.management.options import read_options
from rl.management.tables import task_table
from rl.management.training import train_command
from rl.management.training_options import run_options, training_config
from rl.models import Agent
from rl.runs.run import RunOptions, tasks_of


class Command(RatchetCommand):
    help = "Train an agent that calls tools, by GRPO of whole episodes in an environment."

    def add_options(self, parser: CommandParser) -> None:
        add_agent_options(parser)

    def run(self, **arguments: Any) -> None:
        options, file = read_options(AgentOptions, arguments), None
        if options.run is not None:
            train_command(self, "agent", options)
            return
        require_file(options)
        if options.config:
            options, file = with_file(options, Path(options.config).expanduser())
        with transaction.atomic():
            agent = agent_for(options)
            config, chosen = training_config(agent, "agent", options, file), run_options(agent, options)
            require_device(options.device)
            if options.preview_tasks is not None:
                self._preview(agent, config, chosen, options.preview_tasks)
            elif options.dry_run:
                train_command(self, "agent", options, file)
            if options.preview_tasks is not None or options.dry_run:
                transaction.set_rollback(True)
                return
        train_command(self, "agent", options, file)

    def _preview(self, agent: Agent, config: TrainingConfig, options: RunOptions, most: int) -> None:
        tasks = tasks_of(agent, config, options).train[: max(0, most)]
        self.result({"tasks": list(tasks)}, task_table(tasks))
