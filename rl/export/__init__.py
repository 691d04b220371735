"""From an adapter to files that servers load.

``EXPORTERS`` names one leaf module per format; each has ``export(job: ExportJob, report: Report) -> ExportResult`` and is
imported on first use, because it needs torch. ``GGUFExporter``, ``export_to_ollama``, ``OllamaDeployer`` and
``OllamaHostingProfile`` can be had from here, and are imported on first use too.

Imports: base, config, dataset_builder, lm, models, operations, versions; Django.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

EXPORTERS: Final[dict[str, str]] = {
    "merged": "rl.export.hf.merge",
    "lora": "rl.export.hf.lora",
    "gguf": "rl.export.gguf.export",
    "gguf-lora": "rl.export.gguf.lora",
    "onnx": "rl.export.hf.onnx",
}
_FRONT_DOOR: Final[dict[str, str]] = {
    "GGUFExporter": "rl.runs.exporter",
    "export_to_ollama": "rl.runs.exporter",
    "OllamaDeployer": "rl.export.ollama.deployer",
    "OllamaHostingProfile": "rl.serving.hosting",
}


def __getattr__(name: str) -> Any:
    if name in _FRONT_DOOR:
        return getattr(import_module(_FRONT_DOOR[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
