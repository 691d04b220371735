"""Exporting from Python what belongs to no version: from a checkpoint to a GGUF file, or to a model that Ollama serves."""

from pathlib import Path

from django.conf import settings

from rl.base.errors import UsageError
from rl.base.export_records import ExportResult
from rl.base.leaves import leaf
from rl.base.records import Report, silent
from rl.export.ollama.deployer import OllamaDeployer
from rl.export.release import export_checkpoint
from rl.models import Deployment
from rl.serving.deploy import file_name, require_target
from rl.serving.on_ollama import CHAT_FORMAT


class GGUFExporter:
    """The directory of an adapter, or of a whole model, that becomes GGUF files."""

    def __init__(self, checkpoint_path: str | Path, base_model: str | None = None) -> None:
        """``base_model``: what an adapter was trained on; by default what its configuration says."""
        self.checkpoint = str(checkpoint_path)
        self.base_model = base_model or ""

    def export(self, output_dir: str | Path, model_name: str, quantization: str = "q4_k_m") -> Path:
        """Writes ``<output_dir>/gguf/<model_name>-<quantization>.gguf`` and its model card.

        Raises UsageError for a name, a level or a path that is wrong, ExportFailed for all that breaks on the way.
        """
        names = {"name": model_name, "output": str(output_dir), "base": self.base_model}
        return export_checkpoint(self.checkpoint, "gguf", quantization, **names, report=silent).path


def export_to_ollama(
    checkpoint_path: str | Path, model_name: str, quantization: str = "q4_k_m", register: bool = True
) -> Path:
    """Writes the GGUF file beside the checkpoint and, unless told otherwise, registers it at OLLAMA_URL."""
    if register:
        require_target(Deployment.Target.OLLAMA, model_name)
    names = {"name": file_name(model_name), "output": "", "base": ""}
    result = export_checkpoint(str(checkpoint_path), "gguf", quantization, **names, report=silent)
    if register:
        register_file(result, model_name, silent)
    return result.path


def register_file(exported: ExportResult, model_name: str, report: Report) -> None:
    """Makes Ollama serve a GGUF file that belongs to no version, with its own chat format and Ollama's own settings.

    Raises ExportFailed for a server that is down or refuses, or a chat template that Ollama has no equivalent of.
    """
    if exported.path.suffix != ".gguf":
        raise UsageError(f"Ollama loads GGUF files; {exported.path} is not one")
    family = leaf(CHAT_FORMAT).family_of_file(exported.path)
    parameters = {"stop": family.stop} if family.stop else {}
    OllamaDeployer(settings.OLLAMA_URL).register(
        model_name,
        exported.path,
        template=family.ollama_template(),
        parameters=parameters,
        sha256=exported.files[0].sha256,
        report=report,
    )
