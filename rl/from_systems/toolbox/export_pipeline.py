"""From a trained model to one that Ollama serves, in one call. What fails is told in the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rl.from_systems.toolbox.gguf import GGUFExporter
from rl.from_systems.toolbox.ollama import OllamaDeployer, OllamaHostingProfile
from rl.from_systems.toolbox.results import Steps


class ExportPipeline:
    """``output_dir``: by default ``export`` beside the model. Raises RuntimeError where Ollama does not answer."""

    def __init__(
        self, model_path: Path | str, model_name: str = "toolbox-agent", output_dir: Path | str | None = None
    ) -> None:
        self.model_path, self.model_name = Path(model_path), model_name
        self.output_dir = Path(output_dir) if output_dir else self.model_path.absolute().parent / "export"
        self.gguf_exporter = GGUFExporter(self.model_path, output_dir=self.output_dir)
        self.ollama_deployer = OllamaDeployer()

    def run(
        self, quantization: str = "Q4_K_M", system_prompt: str = "", hosting_profile: str = "auto"
    ) -> dict[str, Any]:
        """``hosting_profile``: auto or ryzen. Also written to ``export_results.json``."""
        self.output_dir.mkdir(parents=True, exist_ok=True)
        about = {"model_path": str(self.model_path), "model_name": self.model_name, "quantization": quantization}
        with Steps(self.output_dir / "export_results.json", **about) as results:
            path = self.gguf_exporter.convert(quantization)
            results["gguf_path"], results["gguf_size_mb"] = path, Path(path).stat().st_size / 2**20
            results["ollama_model"] = self.ollama_deployer.create_model(self.model_name, path, system_prompt)
            results["hosting_profile"] = _describe(self._profile(hosting_profile))
        return results.values

    def _profile(self, name: str) -> OllamaHostingProfile:
        ryzen = name == "ryzen"
        return self.ollama_deployer.get_ryzen_profile() if ryzen else self.ollama_deployer.get_auto_profile()


def quick_export(model_path: Path | str, model_name: str = "toolbox-agent", quantization: str = "Q4_K_M") -> str:
    """The name of the model that Ollama serves. Raises RuntimeError."""
    results = ExportPipeline(model_path, model_name).run(quantization)
    if not results["success"]:
        raise RuntimeError(f"export failed: {results['error']}")
    return str(results["ollama_model"])


def _describe(profile: OllamaHostingProfile) -> dict[str, Any]:
    return {name: getattr(profile, name) for name in ("name", "num_parallel", "num_ctx", "num_thread")}
