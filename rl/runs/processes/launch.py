"""How many processes train together, and the command that starts those of this machine."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import django
import yaml

from rl.base.errors import UsageError
from rl.base.files import write_text
from rl.base.leaves import leaf
from rl.base.outside_files import read_text
from rl.base.records import Scorer
from rl.config import config_class
from rl.config.training_job import TrainingJob

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


JOB = "job.json"
"""The job of a training in several processes: the launcher writes it, and every worker reads it."""
PATHS = ("train_rows", "heldout_rows", "output_dir", "reward_model")


@dataclass(frozen=True, slots=True)
class SharedJob:
    method: str
    processes: int | None
    """Number of processes on all machines together; None where accelerate decides."""
    job: TrainingJob


def write_job(folder: Path, shared: SharedJob) -> None:
    """Raises UsageError for a scorer that cannot go to other processes."""
    job = shared.job
    values = {name: getattr(job, name) for name in (*PATHS, "base_model", "resume", "kind")}
    document = {
        "method": shared.method,
        "processes": shared.processes,
        "job": {**values, "config": asdict(job.config)},
        "scorer": _describe_scorer(job.scorer),
    }
    write_text(folder / JOB, json.dumps(document, default=str))


def read_job(folder: Path) -> SharedJob:
    document = json.loads((folder / JOB).read_text(encoding="utf-8"))
    values = document["job"]
    values |= {name: Path(values[name]) for name in PATHS if values[name]}
    values["config"] = config_class(document["method"])(**values["config"])
    job = TrainingJob(**values, scorer=_make_scorer(document["scorer"]))
    return SharedJob(document["method"], document["processes"], job)


def _describe_scorer(scorer: Scorer | None) -> dict[str, Any] | None:
    """From which the worker makes the same: a dataclass, with JSON in its fields."""
    if scorer is None:
        return None
    if not is_dataclass(scorer) or isinstance(scorer, type):
        raise UsageError(f"{scorer!r} cannot reward answers in other processes: it must be an instance of a dataclass")
    kind = type(scorer)
    return {"module": kind.__module__, "name": kind.__qualname__, "values": asdict(scorer)}


def _make_scorer(description: dict[str, Any] | None) -> Scorer | None:
    """The agent's rewards are in the database."""
    if description is None:
        return None
    django.setup()
    scorer: Scorer = getattr(leaf(description["module"]), description["name"])(**description["values"])
    return scorer
