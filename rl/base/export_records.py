"""What an exporter is given, what it gives back, and what is known about the model that it exports."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rl.base.manner import ASKED_PLAINLY, Manner
from rl.base.measurements import Interval

CARD_NAME = "README.md"
"""The file name of a model card, as model hubs call it."""
VERSION_FILE = "version.json"


def card_path(exported: Path) -> Path:
    """The model card in a directory; beside a single file, its name with ``.md``."""
    return exported / CARD_NAME if exported.is_dir() else exported.with_suffix(".md")


def version_file_path(exported: Path) -> Path:
    """The document for programs in a directory; beside a single file, its name with ``.json``."""
    return exported / VERSION_FILE if exported.is_dir() else exported.with_suffix(".json")


def beside(exported: Path) -> list[Path]:
    """What was written about a single GGUF file."""
    return [card_path(exported), version_file_path(exported)] if exported.suffix == ".gguf" else []


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
class ExportedFile:
    name: str
    """Relative to the exported directory, with slashes; of a single file, its own name."""
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ExportResult:
    path: Path
    """The file, or the directory for formats that are directories."""
    quantization: str
    details: dict[str, Any] = field(default_factory=dict)
    """What a person should see: tensor types used, self-check figures, warnings."""
    files: tuple[ExportedFile, ...] = ()
    """All that belongs to it; filled in once they have their final names."""


@dataclass(frozen=True, slots=True)
class DataFacts:
    """What a version learned from."""

    fingerprint: str
    """SHA-256 over the rows."""
    source: str
    train_rows: int
    heldout_rows: int
    feedback: int
    ratings: int
    raters: int
    shared_judgements: int
    """Pairs of raters that judged the same answer."""
    agreeing: int
    """Those of them that judged it alike."""


@dataclass(frozen=True, slots=True)
class EvaluationFacts:
    date: str
    measure: str
    """What is between 0 and 1: accuracy on held-out pairs, reward, share of tasks solved."""
    verdict: str
    reason: str
    figures: Mapping[str, Interval]
    """By the names of the models that were compared."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a model comes from, as far as it is known; empty where it is not."""

    base_model: str = ""
    agent: str = ""
    version: str = ""
    parent: str = ""
    manner: Manner = ASKED_PLAINLY
    told_where: str = ""
    """The place of its instruction, in words."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """The fields of a chat completion with which it is asked."""
    answers: Mapping[str, Any] = field(default_factory=dict)
    """What its answers are kept to."""
    method: str = ""
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    data: DataFacts | None = None
    evaluations: tuple[EvaluationFacts, ...] = ()
