"""Samples the demo's answers again."""

from __future__ import annotations

from pathlib import Path

from rl.base.leaves import leaf
from rl.demo.everyday import ANSWERS
from rl.management.base import RatchetCommand
from rl.management.options import CommandOptions, option

SAMPLING = "rl.lm.demo_answers"


class Options(CommandOptions):
    output: str = option(default=str(ANSWERS), help="file that appears whole (the demo's own)")
    seed: int = option(default=0)


class Command(RatchetCommand):
    help = "Sample the answers of the quickstart's demo from SmolLM2 again (some minutes)."
    options = Options

    def run(self, options: Options) -> None:
        count = leaf(SAMPLING).sample_answers(Path(options.output), options.seed, self.report)
        self.result({"answers": count, "file": options.output}, lines=[f"{count} answers in {options.output}"])
