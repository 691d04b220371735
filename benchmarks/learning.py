"""How many labels it takes to learn a taste: TRL as it is against Ratchet, on SmolLM2-135M, judged by the taste itself.

    .venv/bin/python benchmarks/learning.py answers                     # makes the answers that are rated again
    .venv/bin/python benchmarks/learning.py run --folder /tmp/learning  # hours; started again it goes on
    .venv/bin/python benchmarks/learning.py run --folder /tmp/learning --small   # minutes
    .venv/bin/python benchmarks/learning.py run --folder /tmp/own --taste own.py --budgets 50   # a taste of yours
    .venv/bin/python benchmarks/learning.py table [--results /tmp/own/results.jsonl]
    .venv/bin/python benchmarks/learning.py verdicts --folder /tmp/learning      # the gate beside the taste

64 prompts have four sampled answers each, which simulated raters of one taste pick from and give thumbs to (10 % the wrong
way round); a version answers 32 prompts that nobody has rated, once greedily and twice by sampling, and the taste compares
each answer with the base model's; one that loops or is empty loses. Every run is a line of ``learning_results.jsonl``; what
it answered lies in the folder.

``--taste``: a file of Python with a function ``taste(text)`` that gives a number, the larger the better. Its runs are lines
of ``results.jsonl`` in the folder.
"""

import argparse
import json
import runpy
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from installation import set_up

RESULTS = Path(__file__).with_name("learning_results.jsonl")
SMALL = {"tastes": ["brief"], "budgets": [50], "seeds": [0], "arms": ["trl-dpo", "ours"]}


@dataclass(frozen=True, slots=True)
class Cell:
    taste: str
    budget: int
    seed: int
    bad: float
    """Share of raters who say the opposite of what they think."""
    arm: str


def cells(options: argparse.Namespace) -> Iterator[Cell]:
    for seed in options.seeds:
        for taste in options.tastes:
            for budget in options.budgets:
                for arm in options.arms:
                    yield Cell(taste, budget, seed, options.bad, arm)


def run(options: argparse.Namespace) -> None:
    from learning_cells import Bench

    if options.taste:
        options.tastes, options.results = [take_taste(options.taste)], options.folder / "results.jsonl"
    done = {key_of(line) for line in read_results(options.results)}
    bench = None
    for cell in cells(options):
        if tuple(asdict(cell).values()) in done:
            continue
        bench = bench or Bench(options.folder)
        began = time.monotonic()
        line = {**asdict(cell), **bench.measure(cell), "seconds": round(time.monotonic() - began)}
        with options.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)


def take_taste(file: Path) -> str:
    """The name under which its taste is among the others. Raises SystemExit for a file without one."""
    from learning_raters import TASTES

    found = runpy.run_path(str(file)).get("taste") if file.is_file() else None
    if not callable(found):
        raise SystemExit(f"{file} must be a file of Python with a function taste(text) that gives a number")
    TASTES[file.stem] = found
    return file.stem


def read_results(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def key_of(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(line[name] for name in ("taste", "budget", "seed", "bad", "arm"))


def make_answers(options: argparse.Namespace) -> None:
    from learning_models import load_base, sample_fixture
    from learning_raters import ANSWERS

    from rl.demo.everyday import QUESTIONS

    prompts = QUESTIONS.read_text(encoding="utf-8").splitlines()[:96]
    sample_fixture(load_base(), prompts, ANSWERS, options.seed)


def table(options: argparse.Namespace) -> None:
    from learning_table import print_tables

    print_tables(read_results(options.results))


def verdicts(options: argparse.Namespace) -> None:
    from learning_verdicts import print_verdicts

    print_verdicts(options.folder, read_results(RESULTS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("answers")
    making.add_argument("--seed", type=int, default=42)
    making.set_defaults(work=make_answers)
    running = commands.add_parser("run")
    running.add_argument("--folder", type=Path, required=True)
    running.add_argument("--small", action="store_true", help="two runs")
    running.add_argument("--tastes", nargs="+", default=["brief", "plain", "personal", "orderly"])
    running.add_argument("--taste", type=Path, metavar="FILE", help="of Python, with a function taste(text), instead")
    running.add_argument("--budgets", nargs="+", type=int, default=[25, 50, 100, 200, 400])
    running.add_argument("--seeds", nargs="+", type=int, default=[0])
    running.add_argument("--arms", nargs="+", default=["trl-dpo", "trl-kto", "ours"])
    running.add_argument("--bad", type=float, default=0.0)
    running.set_defaults(work=run, results=RESULTS)
    judging = commands.add_parser("verdicts")
    judging.add_argument("--folder", type=Path, required=True, help="of the runs")
    judging.set_defaults(work=verdicts)
    showing = commands.add_parser("table")
    showing.add_argument("--results", type=Path, default=RESULTS)
    showing.set_defaults(work=table)
    options = parser.parse_args()
    for name, values in SMALL.items() if getattr(options, "small", False) else ():
        setattr(options, name, values)
    set_up()
    options.work(options)


if __name__ == "__main__":
    main()
