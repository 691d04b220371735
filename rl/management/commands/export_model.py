"""Export."""

from pathlib import Path
from typing import Any

from django.conf import settings

from rl.base.errors import ExportFailed, UsageError
from rl.config.levels import LEVELS
from rl.export import EXPORTERS, release
from rl.management.base import VERSIONS, RatchetCommand, choose_agent, two_columns
from rl.management.options import CommandOptions, argument, option
from rl.models import Agent, Artifact, Deployment
from rl.runs import exporter
from rl.serving import on_ollama
from rl.serving.deploy import deploy, file_name, require_target
from rl.versions.versions import find_version


class Options(CommandOptions):
    agent: str | None = option(help="whose version; default: the only agent with versions")
    version_name: str | None = argument("--version", one_of="what", metavar="NAME", help="default: the agent's newest")
    checkpoint: str | None = option(
        one_of="what", help="an adapter's or a whole model's directory instead of a version"
    )
    list_models: bool = option(
        one_of="what", action="store_true", help="GGUF files here, and Ollama's models; export nothing"
    )
    format: str = option(
        choices=list(EXPORTERS),
        default="gguf",
        also={"--merge": {"action": "store_const", "const": "merged", "help": "--format merged"}},
    )
    quantization: str = option(default="f16", help=f"of a GGUF file: {', '.join(LEVELS)}")
    model_name: str = option(default="", help="default: agent and version")
    output: str = option(default="", help="directory; default: the version's own, or beside the checkpoint")
    base_model: str = option(default="", help="of a checkpoint; default: what its configuration says")
    register: bool = option(action="store_true", help="with the Ollama server at OLLAMA_URL afterwards")


class Command(RatchetCommand):
    help = "Export a version or a checkpoint: merged, as a LoRA adapter, as GGUF or as ONNX; and hand it to Ollama."

    def run(self, options: Options) -> None:
        if options.list_models:
            self._list_models()
            return
        if options.register and options.format != "gguf":
            raise UsageError("Ollama loads GGUF files: --register goes with --format gguf")
        if options.checkpoint:
            path, details = self._export_checkpoint(options.checkpoint, options)
        else:
            agent = choose_agent(options.agent, VERSIONS, self.report)
            path, details = self._export_version(agent, options)
        lines = [str(path), *(f"{name}: {_describe(value)}" for name, value in details.items())]
        self.result({"path": str(path), "format": options.format, "details": details}, lines=lines)

    def _list_models(self) -> None:
        exported = gguf_files()
        served, silence = ollama_models()
        document = {"gguf": exported, "ollama": served, "ollama_problem": silence}
        of_files = {describe_path(file["path"]): f"{file['megabytes']:,} MB" for file in exported}
        of_ollama = {model["name"]: f"{model['megabytes']:,} MB" for model in served}
        tables = [two_columns("GGUF files", of_files or {"none": "export one without --list-models"})]
        tables += [] if silence else [two_columns("Ollama", of_ollama or {"none": "0 MB"})]
        self.result(document, *tables, lines=[silence] if silence else [])

    def _export_checkpoint(self, checkpoint: str, options: Options) -> tuple[Path, dict[str, Any]]:
        name = options.model_name or Path(checkpoint).absolute().name
        if options.register:
            require_target(Deployment.Target.OLLAMA, name)
        result = release.export_checkpoint(
            checkpoint,
            options.format,
            options.quantization,
            name=file_name(name),
            output=options.output,
            base=options.base_model,
            report=self.report,
        )
        if options.register:
            exporter.register_file(result, name, self.report)
        return result.path, result.details | ({"registered": name} if options.register else {})

    def _export_version(self, agent: Agent, options: Options) -> tuple[Path, dict[str, Any]]:
        if options.base_model:
            raise UsageError("--base-model goes with --checkpoint: a version knows what it was trained on")
        version = find_version(agent, options.version_name)
        name, level = options.model_name, options.quantization
        if options.register:
            require_target(Deployment.Target.OLLAMA, name)
        artifact = release.export_version(
            version, options.format, level, name=file_name(name), output=options.output, report=self.report
        )
        details = artifact.details
        if options.register:
            target = Deployment.Target.OLLAMA
            deployment = deploy(agent, version, target=target, quantization=level, model_name=name, report=self.report)
            details = details | {"registered": deployment.model_name}
        return release.artifact_path(artifact), details


def _describe(value: Any) -> str:
    """A table of figures as words: ``F32 11, Q4_K 13``."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_describe(figure)}" for name, figure in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


PATIENCE_SECONDS = 3.0
"""For an Ollama server, which need not be there."""
_MEGABYTE = 1_000_000


def gguf_files() -> list[dict[str, Any]]:
    """``path`` and ``megabytes`` of each, in the order of their paths: below DATA_DIR/models, and what was exported to
    elsewhere and is still there."""
    exported = Artifact.objects.filter(kind=Artifact.Kind.GGUF).values_list("path", flat=True)
    paths = {settings.DATA_DIR / path for path in exported} | set((settings.DATA_DIR / "models").rglob("*.gguf"))
    files = sorted(path for path in paths if path.is_file())
    return [{"path": str(path), "megabytes": round(path.stat().st_size / _MEGABYTE, 1)} for path in files]


def ollama_models() -> tuple[list[dict[str, Any]], str]:
    """``name`` and ``megabytes`` of each, the newest first; or nothing, and why."""
    try:
        models = on_ollama.server(PATIENCE_SECONDS).list()
    except ExportFailed as error:
        return [], str(error)
    return [{"name": model.name, "megabytes": round(model.size_bytes / _MEGABYTE, 1)} for model in models], ""


def describe_path(path: str) -> str:
    """Below DATA_DIR without it."""
    file = Path(path)
    return str(file.relative_to(settings.DATA_DIR)) if file.is_relative_to(settings.DATA_DIR) else path
