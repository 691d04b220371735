"""What an exporter is given, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class ExportJob:
    base_model: str
    adapter_dir: Path | None
    """None exports the base model itself."""
    output_dir: Path
    name: str
    """A slug; becomes file names and ``general.name``."""
    quantization: str = "f16"


@dataclass(frozen=True, slots=True)
class ExportResult:
    path: Path
    """The file, or the directory for formats that are directories."""
    quantization: str
    details: dict[str, Any] = field(default_factory=dict)
    """What a person should see: tensor types used, self-check figures, warnings."""
