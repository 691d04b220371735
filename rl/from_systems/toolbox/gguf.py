"""GGUF files under ToolBoxV2's names. Ratchet's own converter makes them; llama.cpp need not be installed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rl.base.files import scratch_directory, write_text
from rl.base.leaves import import_name
from rl.config.levels import check_level
from rl.from_systems.site import set_up_site

VARIABLE: Final = "LLAMA_CPP_DIR"
"""Tells Ratchet's exporter where a checkout of llama.cpp is."""


@dataclass
class GGUFQuantization:
    name: str
    description: str
    bits: float
    """A weight, about."""
    recommended_for: str

    @staticmethod
    def available() -> dict[str, GGUFQuantization]:
        return {level.name: level for level in LEVELS}


LEVELS: Final = (
    GGUFQuantization("Q2_K", "2 bits and a half, the smallest", 2.5, "very little memory"),
    GGUFQuantization("Q3_K_M", "3 bits, mixed", 3.5, "little memory"),
    GGUFQuantization("Q4_K_M", "4 bits, mixed", 4.5, "most uses"),
    GGUFQuantization("Q5_K_M", "5 bits, mixed", 5.5, "better answers"),
    GGUFQuantization("Q6_K", "6 bits", 6.5, "nearly as exact as 8 bits"),
    GGUFQuantization("Q8_0", "8 bits", 8.0, "hardly any loss"),
    GGUFQuantization("F16", "16 bits, not rounded to fewer", 16.0, "no loss"),
)
"""Those of Ratchet's levels that ToolBoxV2 offers."""
_FROM_RAM: Final = ((32, "Q8_0"), (16, "Q6_K"), (8, "Q4_K_M"), (4, "Q3_K_M"))


class GGUFExporter:
    """``model_path``: the folder of a model, or of an adapter. ``output_dir``: ``gguf`` beside it. ``llama_cpp_path``: a
    checkout whose converter is used for architectures that Ratchet does not convert itself."""

    def __init__(
        self, model_path: Path | str, llama_cpp_path: Path | str | None = None, output_dir: Path | str | None = None
    ) -> None:
        self.model_path = Path(model_path)
        self.output_dir = Path(output_dir) if output_dir else self.model_path.absolute().parent / "gguf"
        self.llama_cpp_path = llama_cpp_path

    def convert(self, quantization: str = "Q4_K_M", output_name: str | None = None) -> str:
        """The path of ``{folder}-{quantization}.gguf``, or of ``output_name``, in the output folder; a model card lies
        beside it. Raises UsageError for an unknown level or a wrong path, ExportFailed for all that breaks on the way."""
        set_up_site()
        level, folder = check_level(quantization), self.model_path.absolute().name
        name = (output_name or f"{folder}-{level.upper()}").removesuffix(".gguf")
        self.output_dir.mkdir(parents=True, exist_ok=True)
        exporter = import_name("rl.runs.exporter.GGUFExporter")(self.model_path)
        with scratch_directory(self.output_dir / "gguf") as scratch, _checkout(self.llama_cpp_path):
            return str(_move(exporter.export(scratch, folder, level), self.output_dir / f"{name}.gguf"))

    def get_recommended_quantization(self, available_ram_gb: float = 8.0) -> str:
        return get_recommended_quantization(available_ram_gb)


def get_recommended_quantization(ram_gb: float = 8.0) -> str:
    return next((level for least, level in _FROM_RAM if ram_gb >= least), "Q2_K")


def _move(made: Path, target: Path) -> Path:
    """With its model card, which names the file."""
    card = made.with_suffix(".md").read_text("utf-8").replace(made.name, target.name)
    write_text(target.with_suffix(".md"), card)
    return made.replace(target)


@contextmanager
def _checkout(path: Path | str | None) -> Iterator[None]:
    before = os.environ.get(VARIABLE)
    if path is not None:
        os.environ[VARIABLE] = str(path)
    try:
        yield
    finally:
        if path is not None:
            os.environ.pop(VARIABLE)
            if before is not None:
                os.environ[VARIABLE] = before
