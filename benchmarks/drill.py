"""Whether the guard rails stop versions that please and do not help, and let good ones through.

.venv/bin/python benchmarks/drill.py --people FILE [--good FILE] [--worlds 4] [--good-only] [--trained] [--json]

FILE: two models' answers and what people preferred, as ``benchmarks/verdicts.py`` reads it. A world is PROMPTS prompts of a
pair of models: one of them is the version in use, and people's picks are the preferred answers. In each world the other
model's own answers, and those of ``--good`` (JSON lines with ``instruction``, ``instances`` of ``input`` and ``output``:
answers that a person wrote, in the form of self-instruct's user-oriented instructions) must break no rail; and each cheat of
``drill_cheats.py`` must break one. ``--trained``: SmolLM2 learns each of ten cheats from 60 rows of other prompts, and its
own answers to the prompts of a world are looked at.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.settings")
os.environ.setdefault("SECRET_KEY", "benchmark-only-benchmark-only-benchmark-only-benchmark")
os.environ.setdefault("DATA_DIR", tempfile.mkdtemp())
os.environ.setdefault("DEBUG", "1")


def drill(options: argparse.Namespace) -> dict[str, Any]:
    import django

    django.setup()

    from drill_worlds import make_world, read_written, sum_up, try_answers, try_trained
    from learning_models import load_base
    from verdicts import directions, read_people

    people, rng, base = read_people(options.people), random.Random(1), load_base()
    pairs = list(directions(people))[: options.worlds]
    worlds = [make_world(base, rows, rng) for rows in pairs]
    tried = [try_answers(world, read_written(options.good), good_only=options.good_only) for world in worlds]
    report = {"scripted": sum_up(tried), "worlds": tried}
    if options.trained:
        with tempfile.TemporaryDirectory() as folder:
            trained = try_trained(worlds[0], people, Path(folder))
        report["trained"] = {"stopped": sum(bool(of["broken"]) for of in trained.values()), "of": len(trained)}
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=Path, required=True)
    parser.add_argument("--good", type=Path)
    parser.add_argument("--worlds", type=int, default=4)
    parser.add_argument("--good-only", action="store_true")
    parser.add_argument("--trained", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report = drill(options)
    if options.json:
        print(json.dumps(report, indent=1, ensure_ascii=False))
        return 0
    for world in report["worlds"]:
        for kind in ("good", "cheats"):
            for name, broken in world[kind].items():
                print(f"{kind:6} {name:34} {', '.join(broken) or '-'}")
    print(json.dumps({name: value for name, value in report.items() if name != "worlds"}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
