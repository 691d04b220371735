"""From an adapter to files that servers load.

``EXPORTERS`` names one leaf module per format; each has ``export(job: ExportJob, report: Report) -> ExportResult`` and is
imported on first use, because it needs torch.
"""

from __future__ import annotations

from typing import Final

EXPORTERS: Final[dict[str, str]] = {
    "merged": "rl.export.merge",
    "lora": "rl.export.lora",
    "gguf": "rl.export.gguf",
}
