"""GGUF files and Ollama under ToolBoxV2's names. Ratchet's own converter makes the files, and it speaks to the server at
OLLAMA_URL: neither llama.cpp nor Ollama's program need be on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rl.base.errors import ExportFailed
from rl.base.export_records import beside
from rl.base.files import scratch_directory, write_text
from rl.base.leaves import import_name, leaf
from rl.config.levels import check_level
from rl.from_systems.site import set_up_site
from rl.hardware import GIB, detect_hardware

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
        """The path of ``{folder}-{quantization}.gguf``, or of ``output_name``, in the output folder; what was written about
        it lies beside it. Raises UsageError for an unknown level or a wrong path, ExportFailed for all that breaks on the
        way."""
        set_up_site()
        level, folder = check_level(quantization), self.model_path.absolute().name
        name = (output_name or f"{folder}-{level.upper()}").removesuffix(".gguf")
        self.output_dir.mkdir(parents=True, exist_ok=True)
        exporter = import_name("rl.runs.exporter.GGUFExporter")(self.model_path)
        with scratch_directory(self.output_dir / "gguf") as scratch, _checkout(self.llama_cpp_path):
            made, target = exporter.export(scratch, folder, level), self.output_dir / f"{name}.gguf"
            for companion, renamed in zip(beside(made), beside(target), strict=True):  # they name the file
                write_text(renamed, companion.read_text("utf-8").replace(made.name, target.name))
            return str(made.replace(target))

    def get_recommended_quantization(self, available_ram_gb: float = 8.0) -> str:
        return get_recommended_quantization(available_ram_gb)


def get_recommended_quantization(ram_gb: float = 8.0) -> str:
    levels = ((32, "Q8_0"), (16, "Q6_K"), (8, "Q4_K_M"), (4, "Q3_K_M"))
    return next((level for least, level in levels if ram_gb >= least), "Q2_K")


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
        family = leaf("rl.export.ollama.template").family_of_file(path)
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
            client = leaf("rl.export.ollama.client").Client(self._server.url, 600.0)
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
