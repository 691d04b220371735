"""How long Ratchet's work takes beside TRL's, in one table: training, generation, evaluation, data, start-up.

python3 -m benchmarks [--rounds 2] [--only dpo-own,evaluation] [--json FILE] [--picture FILE]

All ways of a workload run in turns in one process, on the same rows, from the same weights, with one thread; two workloads
run at a time, on a core each. Figures are medians of CPU and wall seconds of a pass, its share of what is done once a run
over three epochs included. On a machine that has only Python, .venv is made first, as quickstart does.
"""

import argparse
import os
import sys
from pathlib import Path

from backend import bootstrap


def main() -> int:
    options = _parser().parse_args()
    if (code := bootstrap.enter("quickstart", ["-m", "benchmarks", *sys.argv[1:]], ask=True)) is not None:
        return code
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from benchmarks.installation import set_up

    set_up()
    from benchmarks.speed import run

    return run(options)


def _parser() -> argparse.ArgumentParser:
    """With the standard library alone, so that --help installs nothing."""
    parser = argparse.ArgumentParser(
        "python3 -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2, help="timed passes of each way (2)")
    parser.add_argument("--only", default="", help="workloads, with commas between")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--picture", type=Path, help="and draw them here, as SVG")
    parser.add_argument(
        "--short", action="store_true", help="a toy model and one round: whether all ways agree, no times"
    )
    parser.add_argument("--jobs", type=int, help="workloads at a time, on a core each (2, or 1 where memory is short)")
    parser.add_argument("--no-report", dest="report", action="store_false", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
