"""Samples the demo's answers again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from rl.base.leaves import leaf
from rl.demo.everyday import ANSWERS
from rl.management.base import RatchetCommand
from rl.management.options import read_options

SAMPLING = "rl.lm.demo_answers"


@dataclass(frozen=True, slots=True)
class Options:
    output: str
    seed: int


class Command(RatchetCommand):
    help = "Sample the answers of the quickstart's demo from SmolLM2 again (some minutes)."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--output", default=str(ANSWERS), help="file that appears whole (the demo's own)")
        parser.add_argument("--seed", type=int, default=0)

    def run(self, **arguments: Any) -> None:
        options = read_options(Options, arguments)
        count = leaf(SAMPLING).sample_answers(Path(options.output), options.seed, self.report)
        self.result({"answers": count, "file": options.output}, lines=[f"{count} answers in {options.output}"])
