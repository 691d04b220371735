"""How many corrections a job takes that has right answers, from nothing to all of a file, beside plain imitation by TRL.

    .venv/bin/python benchmarks/jobs.py --train route.jsonl --test route-test.json --json

The training file has JSON lines with ``prompt``, ``chosen`` and ``rejected``, lists of messages; the test file a list of
objects with ``prompt`` and ``label``, a text each. Every cell is a site of its own: the first rows of the file (or with
--draws a shuffle of them) are imported, ``train_mpo`` runs with nothing set, and what it led to answers the test file, said
freely. The rung before it, where the answers are of a closed set: the base model behind the gateway, which chooses.

``base``: right answers of the base model; ``right``: corrections to them by rung: ``choice``, ``imitation`` (of what
is in use then: a version that was not promoted is not) and ``words``, which has no model; ``plain``: TRL's SFTTrainer on the
same accepted answers, the best of three rates and three numbers of passes, chosen on the test file, which favours it;
``seconds``: from command to verdict; ``first``: seconds until a like message is answered as the first correction says.
"""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from jobs_site import Site, set_up

SIZES: Final = (10, 25, 50, 100, 200)


def main() -> None:
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        set_up(folder)
        document = measure(options, folder)
    text = json.dumps(document, indent=1, ensure_ascii=False)
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")
    print(text if options.json else _table(document))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", type=Path, required=True, help="JSON lines of preference pairs")
    parser.add_argument("--test", type=Path, required=True, help="JSON: a list of prompts with their labels")
    parser.add_argument("--sizes", default="", help=f"corrections, with commas between ({','.join(map(str, SIZES))})")
    parser.add_argument("--draws", type=int, default=1, help="the first takes the order of the file (1)")
    parser.add_argument("--plain", default="25,200", help="sizes at which TRL's SFTTrainer is run too; empty: none")
    parser.add_argument("--rungs", default="choice,imitation", help="which of them are measured (both)")
    parser.add_argument("--effort", default="", help="of train_mpo: now, minutes or hours (as the agent is set)")
    parser.add_argument("--folder", type=Path, help="keeps the sites here")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--output", type=Path, help="write it here too")
    return parser


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    import jobs_plain
    import jobs_test
    from learning_models import load_base

    from rl.data_formatter.answer_kinds import find_kind

    rows = [json.loads(line) for line in options.train.read_text(encoding="utf-8").splitlines() if line.strip()]
    test = jobs_test.read_test(options.test)
    kind = find_kind([label for _, label in test])
    sizes = [size for size in _numbers(options.sizes, SIZES) if size <= len(rows)]
    base = load_base()
    of_base = jobs_test.count(jobs_test.ask(base, None, test), test, kind)
    document: dict[str, Any] = {"kind": kind.kind, "rows": len(rows), "test": len(test), "base": of_base}
    document |= {"right": {}, "plain": {}, "seconds": {}, "cells": []}
    rungs = options.rungs.split(",")
    if kind.kind == "closed" and "choice" in rungs:
        _choose(document, options, folder, rows, test, kind)
    for size in sizes if "imitation" in rungs else ():
        for draw in range(options.draws):
            site = Site(folder / f"{size}-{draw}")
            cell = {
                "corrections": size,
                "draw": draw,
                **_imitate(base, site, _draw(rows, draw)[:size], test, of_base, kind, options.effort),
            }
            document["cells"].append(cell)
            document["right"].setdefault(size, {}).setdefault("imitation", []).append(cell["right"])
            document["seconds"].setdefault(size, []).append(cell["seconds"])
            _tell(cell)
    for size in sizes:
        if size in _numbers(options.plain, ()):
            document["plain"][size] = jobs_plain.best(base, rows[:size], test, kind, folder / f"plain-{size}")
            _tell({"plain": size, **document["plain"][size]})
    return document


def _imitate(
    base: Any, site: Site, rows: list[dict[str, Any]], test: Any, of_base: dict[str, Any], kind: Any, effort: str
) -> Any:
    """Tells what a training with nothing set but the effort led to, and the right answers of what is in use then."""
    import jobs_test

    site.open()
    site.add(rows)
    led_to = site.train(*(("--effort", effort) if effort else ()))
    if not led_to["weights"]:
        return {**led_to, **of_base}
    of_version = jobs_test.count(jobs_test.ask(base, Path(led_to["weights"]), test), test, kind)
    counted = of_version if led_to["verdict"] == "promote" else of_base  # which stays in use
    return {**led_to, "version": of_version, **counted}


def _choose(
    document: dict[str, Any],
    options: argparse.Namespace,
    folder: Path,
    rows: list[dict[str, Any]],
    test: list[tuple[str, str]],
    kind: Any,
) -> None:
    import jobs_choice

    document["first"] = jobs_choice.first_correction(folder / "first", rows)
    _tell({"first": document["first"]})
    sizes = [size for size in (1, *_numbers(options.sizes, SIZES)) if size <= len(rows)]
    for draw in range(options.draws):
        drawn = _draw(rows, draw)
        for size, cell in jobs_choice.climb(folder / f"choice-{draw}", drawn, sizes, test, kind).items():
            for rung in ("choice", "words"):
                document["right"].setdefault(size, {}).setdefault(rung, []).append(cell[rung])
            _tell({"corrections": size, "draw": draw, **cell})


def _tell(cell: dict[str, Any]) -> None:
    shown = {name: value for name, value in cell.items() if name not in ("said", "weights", "folder", "tried")}
    print(json.dumps(shown, ensure_ascii=False), file=sys.stderr, flush=True)


def _numbers(text: str, otherwise: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip()) or otherwise


def _draw(rows: list[dict[str, Any]], draw: int) -> list[dict[str, Any]]:
    drawn = list(rows)
    if draw:
        random.Random(draw).shuffle(drawn)
    return drawn


def _table(document: dict[str, Any]) -> str:
    lines = [f"{document['kind']} answers; base model {document['base']['right']} of {document['test']}"]
    for size, of_rungs in document["right"].items():
        rungs = ", ".join(f"{rung} {' '.join(map(str, values))}" for rung, values in of_rungs.items())
        plain = document["plain"].get(size)
        beside = f"; plain imitation {plain['right']}" if plain else ""
        seconds = document["seconds"].get(size)
        lines.append(f"{size:>4} corrections: {rungs}{beside}{f'; {max(seconds):.0f} s' if seconds else ''}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
