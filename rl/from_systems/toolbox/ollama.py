"""Ollama under ToolBoxV2's names. Ratchet speaks to its server at OLLAMA_URL; the program need not be on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl.base.errors import ExportFailed
from rl.base.leaves import import_name, leaf
from rl.from_systems.site import set_up_site
from rl.hardware import GIB, detect_hardware

_CLIENT, _CHAT_FORMAT = "rl.export.ollama.client", "rl.export.ollama.template"
PATIENCE = 600.0
"""Seconds that an answer may take."""


@dataclass
class OllamaHostingProfile:
    name: str = "custom"
    num_parallel: int = 1
    num_ctx: int = 4096
    num_gpu: int = 0
    num_thread: int = 0
    """0: as Ollama chooses."""
    main_gpu: int = 0
    flash_attn: bool = False

    def to_env(self) -> dict[str, str]:
        """Environment variables for ``ollama serve``."""
        environment = {"OLLAMA_NUM_PARALLEL": str(self.num_parallel), "OLLAMA_MAX_LOADED_MODELS": "2"}
        if self.num_thread > 0:
            environment["OLLAMA_NUM_THREAD"] = str(self.num_thread)
        if self.flash_attn:
            environment["OLLAMA_FLASH_ATTENTION"] = "1"
        return environment


class OllamaDeployer:
    """Raises RuntimeError where Ollama does not answer. ``ollama_path`` is not needed: nothing is started here."""

    def __init__(self, ollama_path: str = "ollama") -> None:
        set_up_site()
        self.ollama_path = ollama_path
        self._server = import_name("rl.serving.on_ollama.server")()
        try:
            self._server.version()
        except ExportFailed as error:
            raise RuntimeError(str(error)) from error

    def create_model(
        self,
        model_name: str,
        gguf_path: Path | str,
        system_prompt: str = "",
        temperature: float = 0.7,
        num_ctx: int = 4096,
    ) -> str:
        """The name. The chat format is that of the model's own template. Raises ExportFailed."""
        path = Path(gguf_path)
        family = leaf(_CHAT_FORMAT).family_of_file(path)
        parameters = _parameters(temperature, num_ctx, family.stop)
        self._server.register(
            model_name, path, template=family.ollama_template(), system=system_prompt, parameters=parameters
        )
        return model_name

    def create_modelfile(
        self,
        gguf_path: Path | str,
        system_prompt: str = "",
        temperature: float = 0.7,
        num_ctx: int = 4096,
        stop_tokens: list[str] | None = None,
    ) -> str:
        """For ``ollama create``. Without a system prompt it has none."""
        name = Path(gguf_path).name
        parameters = _parameters(temperature, num_ctx, stop_tokens or [])
        ryzen = import_name("rl.serving.hosting.RYZEN")
        text: str = ryzen.modelfile(name, template="", system=system_prompt, parameters=parameters)
        return text.replace(f"FROM ./{name}", f"FROM {gguf_path}", 1)

    def list_models(self) -> list[dict[str, str]]:
        """``name``, ``id``, ``size``, ``modified`` (empty: not asked for), the newest first."""
        return [
            {
                "name": model.name,
                "id": model.digest.removeprefix("sha256:")[:12],
                "size": f"{model.size_bytes / GIB:.1f} GB",
                "modified": "",
            }
            for model in self._server.list()
        ]

    def delete_model(self, model_name: str) -> bool:
        """False where there was none of that name."""
        try:
            self._server.delete(model_name)
        except ExportFailed:
            return False
        return True

    def run_model(self, model_name: str, prompt: str) -> str:
        """The answer. Raises RuntimeError."""
        try:
            client = leaf(_CLIENT).Client(self._server.url, PATIENCE)
            with client, client.explain_failures(f"to run {model_name}"):
                return str(client.generate(model_name, prompt).response)
        except ExportFailed as error:
            raise RuntimeError(str(error)) from error

    def get_ryzen_profile(self, cpu_cores: int = 16) -> OllamaHostingProfile:
        threads, parallel = max(1, cpu_cores - 2), max(1, min(4, cpu_cores // 4))
        return OllamaHostingProfile("ryzen_optimized", num_parallel=parallel, num_thread=threads)

    def get_auto_profile(self) -> OllamaHostingProfile:
        """What suits this machine."""
        hardware = detect_hardware()
        if hardware.gpus:
            return OllamaHostingProfile("gpu_auto", num_parallel=4, num_ctx=8192, num_gpu=99, flash_attn=True)
        context = 4096 if hardware.ram_total >= 16 * GIB else 2048
        ryzen = self.get_ryzen_profile(hardware.usable_cores)
        return OllamaHostingProfile("cpu_auto", ryzen.num_parallel, context, num_thread=ryzen.num_thread)


def _parameters(temperature: float, num_ctx: int, stop: list[str]) -> dict[str, Any]:
    return {"temperature": temperature, "num_ctx": num_ctx, **({"stop": stop} if stop else {})}
