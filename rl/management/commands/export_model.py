from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from rl.errors import UsageError
from rl.evaluation.choosing import find_version
from rl.export import EXPORTERS, release
from rl.export.levels import LEVELS
from rl.management.base import RatchetCommand
from rl.models import Agent


class Command(RatchetCommand):
    help = "Export a version or a checkpoint as a merged model, a LoRA adapter or a GGUF file."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", help="needed with --version")
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--version", dest="version_name", metavar="NAME", help="default: the agent's newest")
        what.add_argument("--checkpoint", help="an adapter's or a whole model's directory instead of a version")
        parser.add_argument("--format", choices=list(EXPORTERS), default="gguf")
        parser.add_argument("--quantization", default="f16", help=f"of a GGUF file: {', '.join(LEVELS)}")
        parser.add_argument("--model-name", default="", help="default: agent and version")
        parser.add_argument(
            "--output", default="", help="directory; default: the version's own, or beside the checkpoint"
        )

    def run(self, **options: Any) -> None:
        shared = {"name": options["model_name"], "output": options["output"], "report": self.report}
        target = (options["format"], options["quantization"])
        if options["checkpoint"]:
            result = release.export_checkpoint(options["checkpoint"], *target, **shared)
            path, details = str(result.path), result.details
        elif options["agent"]:
            version = find_version(Agent.named(options["agent"]), options["version_name"])
            artifact = release.export_version(version, *target, **shared)
            path, details = str(release.artifact_path(artifact)), artifact.details
        else:
            raise UsageError("say what to export: --agent with --version, or --checkpoint")
        lines = [path, *(f"{name}: {_shown(value)}" for name, value in details.items())]
        self.result({"path": path, "format": options["format"], "details": details}, lines=lines)


def _shown(value: Any) -> str:
    """A table of figures as words: ``F32 11, Q4_K 13``."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
