"""This machine, and what suits it."""

from dataclasses import asdict

from django.conf import settings
from rich.table import Table

from rl.hardware import GIB, PROFILES, HardwareConfig, Recommendation, detect_hardware, recommend
from rl.management.base import RatchetCommand, two_columns
from rl.management.options import CommandOptions, option


class Options(CommandOptions):
    profile: str = option(choices=list(PROFILES), default="AUTO_DETECT", help="what to derive them for")


class Command(RatchetCommand):
    help = "What this machine is, and which sizes and hyper-parameters suit it, each with its reason."

    def run(self, options: Options) -> None:
        hardware = detect_hardware(settings.DATA_DIR)
        advice = recommend(hardware, options.profile)
        document = {
            "hardware": asdict(hardware),
            "preset": hardware.preset,
            "profile": advice.profile,
            "device": advice.device,
            "values": advice.values,
            "reasons": {name: choice.reason for name, choice in advice.choices.items()},
        }
        lines = [f"preset for --config: {hardware.preset}", *hardware.notes]
        self.result(document, _machine(hardware), _advice(advice), lines=lines)


def _machine(hardware: HardwareConfig) -> Table:
    features = {"AVX2": hardware.cpu_avx2, "AVX-512": hardware.cpu_avx512, "bf16": hardware.cpu_bf16}
    rows = {
        "system": hardware.platform,
        "CPU": hardware.cpu,
        "cores": f"{hardware.physical_cores} physical, {hardware.usable_cores} of {hardware.logical_cores} usable",
        "CPU has": ", ".join(name for name, there in features.items() if there) or "none of AVX2, AVX-512, bf16",
        "memory": f"{hardware.ram_total / GIB:.1f} GiB, {hardware.ram_available / GIB:.1f} free",
        "disk": f"{hardware.disk_free / GIB:.1f} GiB free",
    }
    for number, gpu in enumerate(hardware.gpus):
        size = f"{gpu.memory_total / GIB:.1f} GiB, {gpu.memory_free / GIB:.1f} free"
        rows[f"GPU {number} ({gpu.backend})"] = f"{gpu.name}, {size}, driver {gpu.driver or 'unknown'}"
    return two_columns("This machine", rows)


def _advice(advice: Recommendation) -> Table:
    table = Table("", "value", "why", title=f"{advice.profile} on {advice.device}", title_justify="left")
    for name, (value, reason) in advice.choices.items():
        table.add_row(name, str(value), reason)
    return table
