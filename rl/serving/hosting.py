"""Hosting profiles: how many requests at once, how long a context and how many threads suit a machine, each number with
its reason. Ollama takes some of them with the model and some from its environment; llama.cpp takes all when it starts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Self

from rl.base.names import require_known
from rl.hardware import GIB, HardwareConfig, detect_hardware

PROFILES: Final = {
    "auto": "what suits this machine and the agent's context length",
    "ryzen": "a desktop CPU with 16 cores and much memory",
}
_GPU_LAYERS_BY_ITSELF = -1
_LARGE, _MEDIUM = 32 * GIB, 16 * GIB
_TRIPLE = '"' * 3


@dataclass(frozen=True, slots=True)
class OllamaHostingProfile:
    name: str
    num_parallel: int
    """Requests at once, each with a context of its own."""
    num_ctx: int
    """Tokens of one context."""
    num_thread: int
    flash_attention: bool
    kv_cache_type: str
    """f16, q8_0 or q4_0."""
    keep_alive: str
    """How long a model stays in memory after its last request, such as 30m; -1: always."""
    max_loaded_models: int
    num_gpu: int = _GPU_LAYERS_BY_ITSELF
    """Layers on the GPU; -1: as many as fit."""
    reasons: Mapping[str, str] = field(default_factory=dict)

    def holding(self, context_length: int) -> Self:
        """The same profile with contexts that are at least so long."""
        return replace(self, num_ctx=max(self.num_ctx, context_length))

    def parameters(self) -> dict[str, Any]:
        """What Ollama keeps with a model. ``num_parallel`` is not among them: it would be stored and not heeded."""
        chosen = {"num_ctx": self.num_ctx, "num_thread": self.num_thread}
        return chosen if self.num_gpu < 0 else {**chosen, "num_gpu": self.num_gpu}

    def environment(self) -> dict[str, str]:
        """Environment variables for the process ``ollama serve``."""
        return {
            "OLLAMA_NUM_PARALLEL": str(self.num_parallel),
            "OLLAMA_CONTEXT_LENGTH": str(self.num_ctx),
            "OLLAMA_FLASH_ATTENTION": str(int(self.flash_attention)),
            "OLLAMA_KV_CACHE_TYPE": self.kv_cache_type,
            "OLLAMA_KEEP_ALIVE": self.keep_alive,
            "OLLAMA_MAX_LOADED_MODELS": str(self.max_loaded_models),
        }

    def env_file(self) -> str:
        """For systemd's EnvironmentFile, or a shell after ``set -a``."""
        lines = [f"{name}={value}" for name, value in self.environment().items()]
        return "\n".join([f"# Hosting profile {self.name}: the environment of 'ollama serve'.", *lines, ""])

    def modelfile(self, gguf_name: str, *, template: str, system: str, parameters: Mapping[str, Any]) -> str:
        """For ``ollama create``. It has no way to write three quotes in a text: such a text is left out, and it says so."""
        texts = {"TEMPLATE": template, "SYSTEM": system}
        lines = [f"FROM ./{gguf_name}"]
        for keyword, text in texts.items():
            if _TRIPLE in text:
                lines.append(f"# {keyword} holds three quotes, which no Modelfile can: register it by 'deploy_model'.")
            elif text:
                lines.append(f"{keyword} {_TRIPLE}{text}{_TRIPLE}")
        for name, value in parameters.items():
            lines += [
                f"PARAMETER {name} {json.dumps(entry, ensure_ascii=False) if isinstance(entry, str) else entry}"
                for entry in (value if isinstance(value, list) else [value])
            ]
        return "\n".join([*lines, ""])

    def llama_cpp(self) -> dict[str, Any]:
        """Settings of a llama.cpp server, as a Deployment keeps them."""
        return {
            "profile": self.name,
            "slots": self.num_parallel,
            "context": self.num_ctx,
            "threads": self.num_thread,
            "gpu_layers": self.num_gpu,
            "kv_cache_type": self.kv_cache_type,
        }

    def as_dict(self) -> dict[str, Any]:
        return {setting.name: getattr(self, setting.name) for setting in fields(self) if setting.name != "reasons"}


RYZEN: Final = OllamaHostingProfile(
    name="ryzen",
    num_parallel=4,
    num_ctx=4096,
    num_thread=14,
    flash_attention=True,
    kv_cache_type="f16",
    keep_alive="24h",
    max_loaded_models=2,
    num_gpu=0,
)


def hosting_profile(name: str, context_length: int, hardware: HardwareConfig | None = None) -> OllamaHostingProfile:
    """``context_length``: tokens of the agent's prompt and answer together. Raises UsageError for an unknown profile."""
    require_known("hosting profile", name, PROFILES)
    if name == "ryzen":
        return RYZEN.holding(context_length)
    return _auto(hardware or detect_hardware(), context_length)


def _auto(hardware: HardwareConfig, context_length: int) -> OllamaHostingProfile:
    memory = max((gpu.memory_total for gpu in hardware.gpus), default=hardware.ram_total)
    where = f"{memory / GIB:.0f} GiB of {'GPU memory' if hardware.gpus else 'RAM'}"
    cores = min(hardware.physical_cores, hardware.usable_cores)
    free = max(1, cores // 8)  # threads spin while they wait: with one on each core, whatever else runs stops them all
    why = "for the site, the database and the queue: threads that share a core spin"
    parallel = 4 if memory >= _LARGE else 2 if memory >= _MEDIUM else 1
    tight = memory < _MEDIUM
    return OllamaHostingProfile(
        name="auto",
        num_parallel=parallel,
        num_ctx=context_length,
        num_thread=max(1, cores - free),
        flash_attention=True,
        kv_cache_type="q8_0" if tight else "f16",
        keep_alive="5m" if tight else "24h",
        max_loaded_models=1 if tight else 2,
        num_gpu=_GPU_LAYERS_BY_ITSELF if hardware.gpus else 0,
        reasons={
            "num_parallel": f"each request at once needs a context of its own; {where}",
            "num_ctx": "the agent's context length",
            "num_thread": f"{cores} physical cores, less {free} {why}",
            "flash_attention": "the same answers with less memory for long contexts; an 8-bit cache needs it",
            "kv_cache_type": f"half the memory of contexts, for hardly any loss; {where}"
            if tight
            else f"exact; {where}",
            "keep_alive": "memory is scarce" if tight else "loading it anew would make the next user wait",
            "max_loaded_models": "memory is scarce"
            if tight
            else "the version in use, and one that is compared with it",
            "num_gpu": "as many layers as fit" if hardware.gpus else "no GPU was found",
        },
    )
