"""A training that asks for bfloat16 on a CPU that is slow in it computes in float32."""

from dataclasses import replace

import pytest
import torch

from rl.config import TrainingConfig, preset
from rl.hardware import Workload, cpu_runs_bf16, detect_hardware, estimate, precision_here, trains_in_bf16
from rl.hardware.detecting import _runs_bf16
from tests.hardware.machines import HALF_BILLION, LAPTOP, MAC, SERVER

pytestmark = pytest.mark.learn

OLD = replace(LAPTOP, cpu_bf16=False, cpu_avx512=False, cpu_runs_bf16=False)
ASKED = TrainingConfig().with_overrides({"precision": "bf16"})


def test_this_processor_runs_bf16_where_pytorch_says_so():
    assert cpu_runs_bf16() == detect_hardware().cpu_runs_bf16 == torch.ops.mkldnn._is_mkldnn_bf16_supported()


@pytest.mark.parametrize(
    ("flags", "runs"),
    [
        ("avx2", False),
        ("avx2 avx512f avx512cd", False),
        ("avx2 avx512f avx512bw avx512dq avx512vl", True),
        ("avx2 avx_ne_convert", True),
        ("asimd", False),
        ("asimd bf16", True),
        ("", False),
    ],
)
def test_what_a_processor_has_tells_whether_it_runs_bf16(flags: str, runs: bool):
    assert _runs_bf16(frozenset(flags.split())) == runs


@pytest.mark.parametrize(
    ("machine", "precision"),
    [(LAPTOP, "bf16"), (OLD, "fp32"), (MAC, "bf16"), (replace(SERVER, cpu_runs_bf16=False), "bf16")],
)
def test_only_a_slow_cpu_takes_float32_where_bf16_is_asked_for(machine, precision: str):
    assert precision_here(ASKED, machine) == precision
    assert trains_in_bf16(ASKED, machine) == (precision == "bf16")
    for untouched in ("auto", "fp32"):
        assert precision_here(TrainingConfig().with_overrides({"precision": untouched}), machine) == untouched


def test_time_and_memory_are_those_of_float32():
    work = Workload(rows=40, tokens=200, answer_tokens=100)
    config = preset("cpu").with_overrides({"precision": "bf16"})
    in_float32 = estimate(work, HALF_BILLION, preset("cpu"), OLD)
    assert estimate(work, HALF_BILLION, config, OLD) == in_float32
    assert estimate(work, HALF_BILLION, config, LAPTOP).peak_memory_bytes < in_float32.peak_memory_bytes
