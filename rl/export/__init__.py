"""From an adapter to files that servers load.

``EXPORTERS`` names one leaf module per format; each has ``export(job: ExportJob, report: Report) -> ExportResult`` and is
imported on first use, because it needs torch. ``GGUFExporter``, ``export_to_ollama``, ``OllamaDeployer`` and
``OllamaHostingProfile`` can be had from here, and are imported on first use too.

Imports: base, collect, config, dataset_builder, lm, models, operations, versions; Django."""

from functools import partial
from typing import Final

from rl.base.leaves import lazy_name

EXPORTERS: Final[dict[str, str]] = {
    "merged": "rl.export.hf.merge",
    "lora": "rl.export.hf.lora",
    "gguf": "rl.export.gguf.export",
    "gguf-lora": "rl.export.gguf.lora",
    "onnx": "rl.export.hf.onnx",
}
_LAZY = {
    "GGUFExporter": "rl.runs.exporter.GGUFExporter",
    "export_to_ollama": "rl.runs.exporter.export_to_ollama",
    "OllamaDeployer": "rl.export.ollama.deployer.OllamaDeployer",
    "OllamaHostingProfile": "rl.serving.hosting.OllamaHostingProfile",
}
__getattr__ = partial(lazy_name, __name__, paths=_LAZY)
