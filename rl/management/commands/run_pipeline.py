"""Data to deployment in one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandParser

from rl.base.errors import UsageError
from rl.config import METHODS
from rl.config.levels import LEVELS
from rl.management.agents import RATINGS, choose_agent
from rl.management.base import RatchetCommand, two_columns
from rl.management.options import read_options
from rl.management.training import show_run
from rl.management.training_options import FULL_HELP, check_export
from rl.runs.pipeline import TrainingPipeline


@dataclass(frozen=True, slots=True)
class Options:
    agent: str | None
    method: str | None
    base_model: str
    full: bool | None
    epochs: float | None
    max_steps: int | None
    learning_rate: float | None
    seed: int | None
    min_samples: int
    val_split: float
    quantization: str
    deploy_ollama: bool
    model_name: str
    dry_run: bool

    def overrides(self) -> dict[str, float | None]:
        """Hyper-parameters; None leaves what the agent has."""
        return {
            "full": self.full,
            "epochs": self.epochs,
            "max_steps": self.max_steps,
            "learning_rate": self.learning_rate,
            "seed": self.seed,
        }

    def data(self) -> dict[str, float]:
        return {"min_samples": self.min_samples, "val_split": self.val_split}


class Command(RatchetCommand):
    help = "Data, training, evaluation, export and deployment of an agent, with the method that suits what there is."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", help="default: the only one with ratings")
        methods = [name for name, method in METHODS.items() if not method.rows.of_tasks]
        parser.add_argument("--method", choices=methods, help="default: the one that training_plan advises")
        parser.add_argument("--base-model", default="", help="hub id or directory; default: the agent's")
        parser.add_argument("--full", action="store_const", const=True, help=FULL_HELP)
        parser.add_argument("--epochs", type=float)
        parser.add_argument("--max-steps", type=int, help="optimiser steps; default: as many as the epochs come to")
        parser.add_argument("--learning-rate", type=float)
        parser.add_argument("--seed", type=int)
        parser.add_argument("--min-samples", type=int, default=10, help="fewest rows to train on (10)")
        parser.add_argument("--val-split", type=float, default=0.2, help="share of the prompts held out (0.2)")
        parser.add_argument("--quantization", default="q8_0", help=f"of the GGUF: {', '.join(LEVELS)}")
        parser.add_argument("--deploy-ollama", action="store_true", help="register the promoted version with Ollama")
        parser.add_argument("--model-name", default="", help="name of the exported model")
        parser.add_argument("--dry-run", action="store_true", help="say what would be trained, and do nothing")

    def run(self, **arguments: Any) -> None:
        options = read_options(Options, arguments)
        check_export(options.quantization, options.model_name)
        agent = choose_agent(options.agent, RATINGS, self.report)
        pipeline = TrainingPipeline(agent, options.base_model, options.method or "")
        overrides, data = options.overrides(), options.data()
        if options.dry_run:
            if options.deploy_ollama:
                raise UsageError("--dry-run deploys nothing; leave out --deploy-ollama")
            plan = pipeline.plan(overrides, data, measures=True, report=self.report)
            self.result(plan.document, *[two_columns(title, rows) for title, rows in plan.tables.items()])
            return
        outcome = pipeline.run_full_pipeline(
            overrides=overrides,
            data=data,
            deploy_ollama=options.deploy_ollama,
            model_name=options.model_name,
            quantization=options.quantization,
            report=self.report,
        )
        show_run(self, outcome.run, outcome.evaluation)
