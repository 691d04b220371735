import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rl.base.errors import UsageError
from rl.runs.processes.launch import Launch, environment

FOLDER = Path("/runs/7/launch")
CPUS: dict[str, Any] = {"use_cpu": True, "num_machines": 2, "num_processes": 4, "machine_rank": 1}
MAIN = {"main_process_ip": "10.0.0.1", "main_process_port": 29500}


def launch(folder: Path, settings: Any, processes: int = 1) -> Launch:
    config = folder / "accelerate.yaml"
    config.write_text(settings if isinstance(settings, str) else yaml.safe_dump(settings))
    return Launch(processes, str(config))


def words(launch: Launch) -> list[str]:
    """Between Python and the worker."""
    command = launch.command(FOLDER)
    assert command[:2] == [sys.executable, "-m"]
    assert Path(command[-2]).name == "worker.py"
    assert command[-1] == str(FOLDER)
    return command[2:-2]


@pytest.mark.parametrize(
    ("values", "told"), [({"processes": 0}, "1 or more"), ({"accelerate_config": "/nowhere"}, "no accelerate")]
)
def test_an_impossible_launch_is_refused(values: dict[str, Any], told: str):
    with pytest.raises(UsageError, match=told):
        Launch(**values)


def test_processes_of_one_machine_are_started_by_torch():
    assert words(Launch(3)) == ["torch.distributed.run", "--standalone", "--nproc_per_node", "3"]
    assert (Launch(3).expected, Launch(3).is_needed, Launch().is_needed) == (3, True, False)


def test_a_configuration_for_gpus_is_given_to_accelerate(tmp_path: Path):
    fsdp = launch(tmp_path, {"distributed_type": "FSDP", "num_processes": 8})
    start = ["accelerate.commands.launch", "--config_file", fsdp.accelerate_config]
    assert words(fsdp) == start
    assert fsdp.expected == 8
    four = Launch(4, fsdp.accelerate_config)
    assert words(four) == [*start, "--num_processes", "4"]
    assert four.expected == 4
    assert launch(tmp_path, {"distributed_type": "MULTI_GPU"}).expected is None


def test_cpus_of_several_machines_are_started_by_torch_on_each(tmp_path: Path):
    place = ["--nnodes", "2", "--node_rank", "1", "--master_addr", "10.0.0.1", "--master_port", "29500"]
    both = launch(tmp_path, {**CPUS, **MAIN})
    assert words(both) == ["torch.distributed.run", "--nproc_per_node", "2", *place]
    assert (both.expected, both.machines) == (4, 2)


def test_cpus_of_one_machine_need_no_address(tmp_path: Path):
    one = launch(tmp_path, {"distributed_type": "MULTI_CPU", "num_processes": 2})
    assert words(one) == ["torch.distributed.run", "--nproc_per_node", "2", "--standalone"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("a: [", "is not YAML"),
        ("just words", "is not a configuration of accelerate"),
        ({**CPUS, **MAIN, "num_processes": 3}, "2 machines cannot share 3 processes equally"),
        (CPUS, "several machines need main_process_ip"),
        ({**CPUS, **MAIN, "fsdp_config": {"fsdp_version": 2}}, "fsdp_config is for GPUs, and use_cpu is set"),
    ],
    ids=["yaml", "words", "shares", "address", "fsdp"],
)
def test_a_configuration_that_cannot_work_is_refused(tmp_path: Path, settings: Any, told: str):
    with pytest.raises(UsageError, match=told):
        launch(tmp_path, settings).command(FOLDER)


def test_workers_find_this_package_and_its_settings(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE")
    made = environment(os.environ)
    assert made["DJANGO_SETTINGS_MODULE"] == "backend.settings"
    assert (Path(made["PYTHONPATH"].partition(":")[0]) / "rl" / "runs" / "processes" / "join.py").is_file()
