"""Export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from rl.base.errors import UsageError
from rl.config.levels import LEVELS
from rl.export import EXPORTERS, release
from rl.management.base import RatchetCommand
from rl.models import Agent, Deployment
from rl.runs import exporter
from rl.serving.deploy import deploy, file_name, require_target
from rl.versions.versions import find_version


class Command(RatchetCommand):
    help = "Export a version or a checkpoint: merged, as a LoRA adapter, as GGUF or as ONNX; and hand it to Ollama."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", help="needed with --version")
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--version", dest="version_name", metavar="NAME", help="default: the agent's newest")
        what.add_argument("--checkpoint", help="an adapter's or a whole model's directory instead of a version")
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--format", choices=list(EXPORTERS), default="gguf")
        form.add_argument("--merge", dest="format", action="store_const", const="merged", help="--format merged")
        parser.add_argument("--quantization", default="f16", help=f"of a GGUF file: {', '.join(LEVELS)}")
        parser.add_argument("--model-name", default="", help="default: agent and version")
        parser.add_argument(
            "--output", default="", help="directory; default: the version's own, or beside the checkpoint"
        )
        parser.add_argument("--base-model", default="", help="of a checkpoint; default: what its configuration says")
        parser.add_argument("--register", action="store_true", help="with the Ollama server at OLLAMA_URL afterwards")

    def run(self, **options: Any) -> None:
        if options["register"] and options["format"] != "gguf":
            raise UsageError("Ollama loads GGUF files: --register goes with --format gguf")
        if options["checkpoint"]:
            path, details = self._checkpoint(options)
        elif options["agent"]:
            path, details = self._version(options)
        else:
            raise UsageError("say what to export: --agent with --version, or --checkpoint")
        lines = [str(path), *(f"{name}: {_shown(value)}" for name, value in details.items())]
        self.result({"path": str(path), "format": options["format"], "details": details}, lines=lines)

    def _checkpoint(self, options: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
        name = options["model_name"] or Path(options["checkpoint"]).absolute().name
        if options["register"]:
            require_target(Deployment.Target.OLLAMA, name)
        chosen = {"name": file_name(name), "output": options["output"], "base": options["base_model"]}
        what = (options["checkpoint"], options["format"], options["quantization"])
        result = release.export_checkpoint(*what, **chosen, report=self.report)
        if options["register"]:
            exporter.register_file(result, name, self.report)
        return result.path, result.details | ({"registered": name} if options["register"] else {})

    def _version(self, options: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
        if options["base_model"]:
            raise UsageError("--base-model goes with --checkpoint: a version knows what it was trained on")
        version = find_version(Agent.by_name(options["agent"]), options["version_name"])
        name, output, level = options["model_name"], options["output"], options["quantization"]
        shared = {"name": file_name(name), "output": output, "report": self.report}
        if options["register"]:
            require_target(Deployment.Target.OLLAMA, name)
        artifact = release.export_version(version, options["format"], level, **shared)
        details = artifact.details
        if options["register"]:
            served = {"quantization": level, "model_name": name, "report": self.report}
            deployment = deploy(version.agent, version, target=Deployment.Target.OLLAMA, **served)
            details = details | {"registered": deployment.model_name}
        return release.artifact_path(artifact), details


def _shown(value: Any) -> str:
    """A table of figures as words: ``F32 11, Q4_K 13``."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
