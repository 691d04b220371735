"""Who makes a GGUF file: our converter or the script of a llama.cpp checkout, and which program rounds to k-levels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rl.base.errors import ExportFailed
from rl.base.records import Report
from rl.config.levels import SMALL_LEVELS
from rl.export.gguf.architectures import ARCHITECTURES, find_architecture
from rl.export.gguf.convert import convert
from rl.export.gguf.quantize import k_quant_library
from rl.export.gguf.requantize import requantize, tensor_types
from rl.export.hf.loading import stored_dtype
from rl.export.llama_cpp.tools import PROGRAM, VARIABLE, convert_script, quantize_program, run_program, run_script


@dataclass(frozen=True, slots=True)
class Making:
    level: str
    exact_level: str
    """Level of the file in between, where one is needed: rounds nothing that the merged model holds."""
    script: Path | None
    """None for our own converter."""
    program: str | None
    """The path of ``llama-quantize`` where that makes the k-level."""
    quantizer: str
    """What rounds the weights, for a person to see."""

    @property
    def needs_exact_file(self) -> bool:
        return self.program is not None or (self.script is not None and self.level in SMALL_LEVELS)


def plan_making(config: Any, level: str) -> Making:
    """Raises ExportFailed for an architecture that nobody here converts, or a level that nobody here rounds to."""
    script = None if _is_known(config) else _script_for(config)
    exact = "bf16" if stored_dtype(config) == torch.bfloat16 else "f32"
    if level not in SMALL_LEVELS:
        return Making(level, exact, script, None, script.name if script else "gguf")
    if program := quantize_program():
        return Making(level, exact, script, program, PROGRAM)
    return Making(level, exact, script, None, k_quant_library().package)


def make(making: Making, model_dir: Path, destination: Path, spare: Path, name: str, report: Report) -> dict[str, int]:
    """Writes ``destination``, with room in ``spare`` for a file in between. Returns how many tensors got which type, for
    example ``{"Q4_K": 14, "F32": 5}``."""
    if not making.needs_exact_file:
        return _convert(making.script, model_dir, destination, making.level, name, report)
    exact = spare / "exact.gguf"
    _convert(making.script, model_dir, exact, making.exact_level, name, report)
    report("stage", {"name": "quantize"})
    if making.program is None:
        return requantize(exact, destination, making.level, report)
    run_program(making.program, exact, destination, making.level, torch.get_num_threads(), report)
    return tensor_types(destination)


def _convert(
    script: Path | None, model_dir: Path, destination: Path, level: str, name: str, report: Report
) -> dict[str, int]:
    if script is None:
        return convert(model_dir, destination, level, name, report)
    run_script(script, model_dir, destination, level, name, report)
    return tensor_types(destination)


def _is_known(config: Any) -> bool:
    """Raises ExportFailed for a known architecture in a variant that llama.cpp would run wrongly: its script too."""
    if (config.architectures or [""])[0] not in ARCHITECTURES:
        return False
    find_architecture(config)
    return True


def _script_for(config: Any) -> Path:
    if script := convert_script():
        return script
    name = (config.architectures or ["none named"])[0]
    raise ExportFailed(
        f"no GGUF export for the architecture {name}; supported: {', '.join(ARCHITECTURES)}; for another one, set "
        f"{VARIABLE} to a checkout of llama.cpp, whose converter is then used"
    )
