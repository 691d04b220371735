"""Data to deployment in one call."""

from rl.base.errors import UsageError
from rl.config.levels import LEVELS
from rl.management.base import RATINGS, RatchetCommand, choose_agent, two_columns
from rl.management.options import CommandOptions, option
from rl.management.training import show_run
from rl.management.training_options import FULL_HELP, check_export, methods_of_rows
from rl.runs.pipeline import TrainingPipeline


class Options(CommandOptions):
    agent: str | None = option(help="default: the only one with ratings")
    method: str | None = option(choices=methods_of_rows, help="default: the one that training_plan advises")
    base_model: str = option(default="", help="hub id or directory; default: the agent's")
    full: bool | None = option(action="store_const", const=True, help=FULL_HELP)
    epochs: float | None = option()
    max_steps: int | None = option(help="optimiser steps; default: as many as the epochs come to")
    learning_rate: float | None = option()
    seed: int | None = option()
    min_samples: int = option(default=10, help="fewest rows to train on (10)")
    val_split: float = option(default=0.2, help="share of the prompts held out (0.2)")
    quantization: str = option(default="q8_0", help=f"of the GGUF: {', '.join(LEVELS)}")
    deploy_ollama: bool = option(action="store_true", help="register the promoted version with Ollama")
    model_name: str = option(default="", help="name of the exported model")
    dry_run: bool = option(action="store_true", help="say what would be trained, and do nothing")


class Command(RatchetCommand):
    help = "Data, training, evaluation, export and deployment of an agent, with the method that suits what there is."

    def run(self, options: Options) -> None:
        check_export(options.quantization, options.model_name)
        agent = choose_agent(options.agent, RATINGS, self.report)
        pipeline = TrainingPipeline(agent, options.base_model, options.method or "")
        hyper_parameters = ("full", "epochs", "max_steps", "learning_rate", "seed")
        overrides = {name: getattr(options, name) for name in hyper_parameters}  # None leaves what the agent has
        data = {"min_samples": options.min_samples, "val_split": options.val_split}
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
