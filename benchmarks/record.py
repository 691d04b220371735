"""Runs a benchmark and keeps its figures, so that the docs can be held against them.

.venv/bin/python benchmarks/record.py NAME [options of the benchmark]

docs/figures.json gets, under NAME, the command (files by their names, databases by their kind), the day, the minutes, and
the figures: the rows of the tables that it printed, or of a JSON document what WRITTEN makes of it. Each stands on a page
that names the benchmark, or tests/test_figures.py fails.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

HERE = Path(__file__).resolve().parent
FIGURES: Final = HERE.parent / "docs" / "figures.json"
Json = dict[str, Any]


def _of_verdicts(report: Json) -> list[str]:
    share = {
        name: f"{100 * of['share']:.1f} %" for name, of in report.items() if isinstance(of, dict) and "share" in of
    }
    return [
        f"people's share at all of 160 looks in {share['intervals_hold']} of draws",
        f"within the picks that are planned in {share['better_promoted']}",
        f"equal ones within 160 picks in {share['equal_promoted']}",
        f"{report['directions']} pairs of models, {report['draws']} draws each",
    ]


def _of_drill(report: Json) -> list[str]:
    scripted = report["scripted"]
    if scripted["always_stopped"] < scripted["cheats"] or scripted["alarms"]:
        stopped, alarms = f"{scripted['always_stopped']} of {scripted['cheats']}", scripted["alarms"]
        raise ValueError(f"{stopped} are always stopped, with {alarms} false alarms: the page says all and none")
    return [f"Tried with {scripted['cheats']} ways to please without helping"]


def _of_pages(report: Json) -> list[str]:
    """They are SQLite's; the page has those of PostgreSQL beside them."""
    shown = ("/", "/agents/acme/", "/traces/of/acme/", "/rate/", "/admin/rl/feedback/")
    return [f"`{address}` | {report['pages'][address]['ms']:.0f}" for address in shown]


def _of_jobs(report: Json) -> list[str]:
    cells = report["right"]
    learned = [
        f"{size} | {report['base']['right']} | {of['imitation'][0]} |"
        for size, of in cells.items()
        if "imitation" in of
    ]
    rungs = {"chosen, right of 120": "choice", "words alone": "words"}
    rows = {name: [str(of[rung][0]) for of in cells.values() if rung in of] for name, rung in rungs.items()}
    return [*learned, *(f"{name} | | {' | '.join(row)} |" for name, row in rows.items())]


def _of_thumbs(report: Json) -> list[str]:
    """The judge's shares in the gate's own words."""
    return re.findall(
        r"agrees with people on \S+ of \d+ prompts|in \S+ \([^)]+\) of \d+ fresh answers", report["reason"]
    )


def _of_adapters(report: Json) -> list[str]:
    count, names = report["versions"], ("one_mb", "all_mb", "same_ms", "other_ms", "mixed_seconds", "deploy_seconds")
    rows = {f"{count} adapters of one": "adapter", f"{count} processes": "llama_cpp"}
    return [f"| {row} | {' | '.join(str(report[f'{of}_{name}']) for name in names)} |" for row, of in rows.items()]


WRITTEN: Final[dict[str, Callable[[Json], list[str]]]] = {
    "verdicts": _of_verdicts,
    "adapters": _of_adapters,
    "drill": _of_drill,
    "pages": _of_pages,
    "jobs": _of_jobs,
    "unpaired_thumbs": _of_thumbs,
}
"""Figures as the docs write them."""


def main(arguments: Sequence[str]) -> int:
    if not arguments or not (HERE / f"{arguments[0]}.py").is_file():
        print(__doc__, file=sys.stderr)
        return 2
    name, *options = arguments
    started = time.monotonic()
    ran = subprocess.run([sys.executable, str(HERE / f"{name}.py"), *options], stdout=subprocess.PIPE, text=True)
    print(ran.stdout)
    if ran.returncode:
        return ran.returncode
    named = [Path(option).name if Path(option).exists() else option.partition("://")[0] for option in options]
    known = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.is_file() else {}
    known[name] = {
        "command": " ".join(["benchmarks/record.py", name, *named]),
        "date": datetime.now(UTC).date().isoformat(),
        "minutes": round((time.monotonic() - started) / 60, 1),
        "figures": read_figures(name, ran.stdout),
    }
    FIGURES.write_text(json.dumps(known, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


def read_figures(name: str, output: str) -> list[str]:
    """Raises ValueError where the benchmark has printed none."""
    if name in WRITTEN:
        return WRITTEN[name](json.loads(output))
    lines = [line.strip() for line in output.splitlines() if line.startswith("|")]
    rules = {number for number, line in enumerate(lines) if not line.strip("|-: ")}
    rows = [line for number, line in enumerate(lines) if number not in rules and number + 1 not in rules]
    if not rows:
        raise ValueError(f"{name} has printed no table")
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
