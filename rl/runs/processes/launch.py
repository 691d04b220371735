"""How many processes train together, and the command that starts those of this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rl.base.errors import UsageError
from rl.base.outside_files import read_text

_ROOT = Path(__file__).resolve().parents[3]
_WORKER = Path(__file__).with_name("worker.py")
_CUTS = ("fsdp_config", "deepspeed_config", "megatron_lm_config")


@dataclass(frozen=True, slots=True)
class Launch:
    """How many processes, or what accelerate's configuration file says (DDP, FSDP, DeepSpeed; also for several machines)."""

    processes: int = 1
    accelerate_config: str = ""

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise UsageError(f"--num-processes must be 1 or more, not {self.processes}")
        if self.accelerate_config and not Path(self.accelerate_config).is_file():
            raise UsageError(f"there is no accelerate configuration {self.accelerate_config}")

    @property
    def is_needed(self) -> bool:
        return self.processes > 1 or bool(self.accelerate_config)

    @property
    def expected(self) -> int | None:
        """Processes, on all machines together; None where accelerate decides. Raises UsageError."""
        if self.processes > 1 or not self.accelerate_config:
            return self.processes
        count = self._settings().get("num_processes")
        return int(count) if count else None

    @property
    def machines(self) -> int:
        """Raises UsageError."""
        return int(self._settings().get("num_machines") or 1) if self.accelerate_config else 1

    def command(self, folder: Path) -> list[str]:
        """Starts workers on the job in ``folder``. Raises UsageError for a configuration that cannot work."""
        return [sys.executable, "-m", *self._launcher(), str(_WORKER), str(folder)]

    def _launcher(self) -> list[str]:
        if not self.accelerate_config:
            return ["torch.distributed.run", "--standalone", "--nproc_per_node", str(self.processes)]
        settings = self._settings()
        if settings.get("use_cpu") or settings.get("distributed_type") == "MULTI_CPU":
            return self._on_cpus(settings)
        start = ["accelerate.commands.launch", "--config_file", self.accelerate_config]
        return start + (["--num_processes", str(self.processes)] if self.processes > 1 else [])

    def _on_cpus(self, settings: dict[str, Any]) -> list[str]:
        """Accelerate's own launcher would need MPI, and without it start one process and say nothing."""
        if cut := [name for name in _CUTS if settings.get(name)]:
            raise UsageError(f"{self.accelerate_config}: {cut[0]} is for GPUs, and use_cpu is set")
        machines, processes = self.machines, self.expected or 1
        if processes % machines:
            raise UsageError(
                f"{self.accelerate_config}: {machines} machines cannot share {processes} processes equally"
            )
        start = ["torch.distributed.run", "--nproc_per_node", str(processes // machines)]
        if machines == 1:
            return [*start, "--standalone"]
        return [*start, "--nnodes", str(machines), *self._rendezvous(settings)]

    def _rendezvous(self, settings: dict[str, Any]) -> list[str]:
        keys = {"--node_rank": "machine_rank", "--master_addr": "main_process_ip", "--master_port": "main_process_port"}
        if missing := [key for key in keys.values() if settings.get(key) is None]:
            raise UsageError(f"{self.accelerate_config}: several machines need {missing[0]}")
        return [word for option, key in keys.items() for word in (option, str(settings[key]))]

    def _settings(self) -> dict[str, Any]:
        try:
            settings = yaml.safe_load(read_text(Path(self.accelerate_config)))
        except (RecursionError, ValueError, yaml.YAMLError) as error:
            raise UsageError(f"{self.accelerate_config} is not YAML: {' '.join(str(error).split())}") from None
        if not isinstance(settings, dict):
            raise UsageError(
                f"{self.accelerate_config} is not a configuration of accelerate: write one with 'accelerate config'"
            )
        return settings


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The launcher's environment: ``variables``, and what its workers need to import this package."""
    return {
        "DJANGO_SETTINGS_MODULE": "backend.settings",
        **variables,
        "PYTHONPATH": os.pathsep.join([str(_ROOT), variables.get("PYTHONPATH", "")]),
    }
