"""Profiles: which sizes and hyper-parameters suit a machine, each number with its reason."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.config import TrainingConfig, preset
from rl.hardware.cost import estimate, peak_memory
from rl.hardware.detecting import GIB, HardwareConfig, detect_hardware
from rl.hardware.parts import Workload
from rl.hardware.speed import ModelShape

PROFILES = {
    "AUTO_DETECT": "the GPU where there is one, else what the CPU can do",
    "GPU_ENABLED": "the GPU, or a refusal",
    "RYZEN_OPTIMIZED": "a desktop CPU with many cores and much memory",
    "CPU_ONLY": "any CPU: slower and smaller, and sure to run",
}

MODEL_SIZES = {
    "7B": ModelShape(7_600_000_000, 28, 3584, 152_064, tied=False),
    "3B": ModelShape(3_090_000_000, 36, 2048, 151_936),
    "1.5B": ModelShape(1_540_000_000, 28, 1536, 151_936),
    "0.5B": ModelShape(494_000_000, 24, 896, 151_936),
}
"""The largest first, in the shapes of Qwen2.5."""

_EFFECTIVE_BATCH = 16
_SHARE = {"cpu": 0.55, "mps": 0.7, "cuda": 0.85, "rocm": 0.85}
"""Share of the memory that a training may plan with. The CPU's also serves the site, the database and the disk's cache."""
_PAIR = 2
"""Sequences of a DPO row, the method whose rows are largest."""
_MUCH_RAM, _LARGE_GPU = 32 * GIB, 40 * GIB
_NIGHT = 8.0
"""Hours that a DPO run of so many rows of so many tokens may take:"""
_SOME_ROWS, _SOME_TOKENS, _PADDED_TOKENS = 500, 300, 400
_DISCRETE = ("cuda", "rocm")


class ReasonedChoice(NamedTuple):
    value: Any
    reason: str


@dataclass(frozen=True, slots=True)
class Recommendation:
    profile: str
    device: str
    choices: dict[str, ReasonedChoice]
    """``model_size``, ``torch_threads``, ``dataloader_workers``, ``num_generations`` and hyper-parameters."""

    @property
    def values(self) -> dict[str, Any]:
        return {name: choice.value for name, choice in self.choices.items()}

    def config(self, method: str = "dpo") -> TrainingConfig:
        """The preset of the machine's kind with these numbers, as far as the method has them."""
        start = preset("cpu" if self.device == "cpu" else "default", method)
        values = {start.OF_PRESETS.get(name, name): value for name, value in self.values.items()}
        return start.with_overrides({name: value for name, value in values.items() if hasattr(start, name)})


def recommend(hardware: HardwareConfig, profile: str = "AUTO_DETECT") -> Recommendation:
    """Raises UsageError for an unknown profile, and for GPU_ENABLED where no GPU is found."""
    require_known("profile", profile, PROFILES)
    if profile == "GPU_ENABLED" and not hardware.gpus:
        why = f" ({'; '.join(hardware.notes)})" if hardware.notes else ""
        raise UsageError(f"GPU_ENABLED needs a GPU, and none was found{why}; AUTO_DETECT takes what is there")
    on_gpu = bool(hardware.gpus) and profile in ("AUTO_DETECT", "GPU_ENABLED")
    is_strong = on_gpu or (hardware.cpu_bf16 and hardware.ram_total >= _MUCH_RAM)
    careful = profile == "CPU_ONLY" or (profile == "AUTO_DETECT" and not is_strong)
    device = hardware.device if on_gpu else "cpu"
    memory = max(gpu.memory_total for gpu in hardware.gpus) if on_gpu else hardware.ram_total
    threads = max(1, min(hardware.physical_cores, hardware.usable_cores - 1))
    choices = {
        "precision": _precision(hardware, device, careful),
        "torch_threads": ReasonedChoice(
            threads, f"{hardware.physical_cores} physical cores; the site keeps one of {hardware.usable_cores}"
        ),
        "dataloader_workers": ReasonedChoice(0, "rows are token ids on disk: reading them takes a hundredth of a step"),
    }
    choices |= _of_the_memory(hardware, memory, device, choices["precision"].value, careful)
    return Recommendation(profile, device, choices)


def get_ryzen_optimized_config(hardware: HardwareConfig | None = None) -> TrainingConfig:
    """RYZEN_OPTIMIZED for this machine, or the one given."""
    return recommend(hardware or detect_hardware(), "RYZEN_OPTIMIZED").config()


def _precision(hardware: HardwareConfig, device: str, careful: bool) -> ReasonedChoice:
    if device in _DISCRETE:
        return ReasonedChoice("auto", "bf16 where the GPU has it, asked when the training starts")
    if device == "mps":
        return ReasonedChoice("fp32", "bf16 is not in every Apple processor")
    if careful or not hardware.cpu_bf16:
        why = "runs on every CPU" if hardware.cpu_bf16 else "this CPU only emulates bf16, which is slower"
        return ReasonedChoice("fp32", why)
    return ReasonedChoice(
        "bf16", "the CPU multiplies bf16 itself: measured to be half as fast again, and half the memory"
    )


def _of_the_memory(
    hardware: HardwareConfig, memory: int, device: str, precision: str, careful: bool
) -> dict[str, ReasonedChoice]:
    batch = 1 if careful else 4 if device in _DISCRETE and memory >= _LARGE_GPU else 2
    generations = _generations(memory, device, careful)
    together = math.lcm(batch, generations.value)
    rows = together * max(1, round(_EFFECTIVE_BATCH / together))
    rank = 16 if not careful and memory >= 8 * GIB else 8
    return _model(hardware, memory, device, TrainingConfig(batch_size=batch, precision=precision)) | {
        "batch_size": ReasonedChoice(batch, _why_batch(batch, careful)),
        "gradient_accumulation": ReasonedChoice(
            rows // batch, f"{rows} rows a step: near {_EFFECTIVE_BATCH}, and whole groups of {generations.value}"
        ),
        "lora_r": ReasonedChoice(
            rank, "room for what some thousand ratings say" if rank == 16 else "half the adapter's memory"
        ),
        "lora_alpha": ReasonedChoice(2 * rank, "twice the rank, so that the learning rate of the presets fits"),
        "num_generations": generations,
    }


def _why_batch(batch: int, careful: bool) -> str:
    if careful:
        return "a batch of one has no padding, which a CPU would multiply too"
    if batch == 4:
        return "fills the GPU; passes are added up to the effective batch"
    return "little padding, little memory; passes are added up to the effective batch"


def _generations(memory: int, device: str, careful: bool) -> ReasonedChoice:
    if careful:
        return ReasonedChoice(
            4, "answers are generated one token at a time: the fewest whose mean still says something"
        )
    if device == "cpu":
        return ReasonedChoice(6, "a steadier mean than 4 gives, at the price that a strong CPU can pay")
    if memory >= 8 * GIB:
        return ReasonedChoice(8, "GRPO's usual group")
    return ReasonedChoice(4, "the answers' cache must fit in too")


def _model(hardware: HardwareConfig, memory: int, device: str, config: TrainingConfig) -> dict[str, ReasonedChoice]:
    """The largest that fits; on a GPU with recomputed activations if need be, on a CPU if a night is enough too. There
    activations are recomputed only where a larger model fits with batches of one: no profile is smaller than CPU_ONLY."""
    budget, share = _SHARE[device] * memory, f"{_SHARE[device]:.0%} of {memory / GIB:.0f} GiB"
    lean = config.with_overrides({"activation_checkpointing": True})
    for name in MODEL_SIZES:
        alone = _need(name, config.with_overrides({"batch_size": 1, "precision": "fp32"}))
        for candidate in (config, lean) if device != "cpu" or alone <= budget else (config,):
            need = _need(name, candidate)
            if need <= budget and (device != "cpu" or _hours(name, hardware, config) <= _NIGHT):
                again = candidate.activation_checkpointing
                fits = f"training it needs {need / GIB:.0f} GiB with rows of {config.max_length} tokens, of {share}"
                return _size(name, fits if device != "cpu" else f"{fits}, and not more than a night", again, device)
    need, hours = _need("0.5B", lean), _hours("0.5B", hardware, config)
    if device == "cpu" and _need("0.5B", config) <= budget:
        return _size("0.5B", f"the smallest; {_SOME_ROWS} pairs still take about {hours:.0f} hours", False, device)
    return _size("0.5B", f"the smallest; it may need {need / GIB:.0f} GiB with long rows, of {share}", True, device)


def _size(name: str, reason: str, recompute: bool, device: str) -> dict[str, ReasonedChoice]:
    why = "saves memory" if recompute else "costs a third more time" if device == "cpu" else "there is memory enough"
    return {"model_size": ReasonedChoice(name, reason), "activation_checkpointing": ReasonedChoice(recompute, why)}


def _need(name: str, config: TrainingConfig) -> int:
    """Bytes."""
    return peak_memory(MODEL_SIZES[name], config, _PAIR * int(config.batch_size), config.precision != "fp32")


def _hours(name: str, hardware: HardwareConfig, config: TrainingConfig) -> float:
    work = Workload(rows=_SOME_ROWS, tokens=_SOME_TOKENS, answer_tokens=_SOME_TOKENS / 2, longest=_PADDED_TOKENS)
    return estimate(work, MODEL_SIZES[name], config, replace(hardware, gpus=())).seconds / 3600
