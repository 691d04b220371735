"""What this machine is, which numbers suit it, and about how long a training run would take on it.

Imports: base, config."""

# ruff: noqa: F401  for others to import from here
from rl.hardware.cost import TrainingEstimate, estimate
from rl.hardware.detecting import (
    GIB,
    Gpu,
    HardwareConfig,
    choose_gpu,
    cpu_runs_bf16,
    detect_hardware,
    require_device,
    usable_cores,
)
from rl.hardware.parts import Part, Workload
from rl.hardware.precision import REPLACED, in_4bit, precision_here, precision_on, trains_in_bf16
from rl.hardware.profiles import PROFILES, Recommendation, get_ryzen_optimized_config, recommend
from rl.hardware.speed import ModelShape, Speed, assumed_speed
