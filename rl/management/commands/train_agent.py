"""Train agents with tools on tasks."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction

from rl.config import AgentConfig, TrainingConfig
from rl.management.agent_options import agent_for, require_device, require_file, with_file
from rl.management.base import RatchetCommand
from rl.management.tables import task_table
from rl.management.training import add_run_options, add_training_options, run_options, train_command, training_config
from rl.models import Agent
from rl.runs.run import RunOptions, tasks_of


class Command(RatchetCommand):
    help = "Train an agent that calls tools, by GRPO of whole episodes in an environment."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", help="whose model it is, made if there is none; default: the file's name")
        add_training_options(parser)
        parser.add_argument("--config", metavar="FILE", help="YAML: model, policy, env, rollout, train, eval, tools")
        parser.add_argument("--base-model", "--model", default="", help="hub id or directory; default: the file's")
        tasks = parser.add_argument_group("tasks")
        tasks.add_argument("--dataset-dir", default="", help="folder with a .jsonl file for each split")
        tasks.add_argument("--train-split", default="", help="file to learn from, without .jsonl (train)")
        tasks.add_argument("--eval-split", help="file to be measured by, without .jsonl (eval); empty: none")
        tasks.add_argument("--preview-tasks", type=int, metavar="N", help="show the first tasks, and do nothing")
        tasks.add_argument(
            "--curriculum", action="store_const", const=True, help="the hardest tasks that still teach come first"
        )
        episodes = parser.add_argument_group("episodes")
        episodes.add_argument("--policy-type", choices=AgentConfig.CHOICES["policy_type"], help="how tools are written")
        episodes.add_argument("--num-generations", type=int, help="episodes of a task, compared with each other")
        episodes.add_argument("--async-rollout-workers", type=int, help="processes in which environments run")
        episodes.add_argument("--temperature", type=float, help="of sampling; 1 is the model's own")
        episodes.add_argument("--max-new-tokens", type=int, help="most tokens of one turn")
        episodes.add_argument("--beta", type=float, help="weight of the divergence from the base model")
        episodes.add_argument("--device", choices=AgentConfig.CHOICES["device"], help="to train on (auto)")
        vllm = parser.add_mutually_exclusive_group()
        vllm.add_argument("--vllm", action="store_const", const=True, help="generate with vLLM on the GPU that trains")
        vllm.add_argument("--vllm-server", metavar="URL", help="generate on a vLLM server")
        add_run_options(parser)

    def run(self, **options: Any) -> None:
        if options["run"] is not None:
            train_command(self, "agent", options)
            return
        require_file(options)
        options = with_file(options) if options["config"] else options
        with transaction.atomic():
            agent = agent_for(options)
            config, asked = training_config(agent, "agent", options), run_options(agent, options)
            require_device(options["device"])
            if options["preview_tasks"] is not None:
                self._preview(agent, config, asked, options["preview_tasks"])
            elif options["dry_run"]:
                train_command(self, "agent", options)
            if options["preview_tasks"] is not None or options["dry_run"]:
                transaction.set_rollback(True)
                return
        train_command(self, "agent", options)

    def _preview(self, agent: Agent, config: TrainingConfig, asked: RunOptions, most: int) -> None:
        source = tasks_of(agent, config, asked)
        tasks = source.train[: max(0, most)]
        self.result({"tasks": list(tasks)}, task_table(tasks))
