"""Command Center's widget choice as a job: its question bank, expanded by its own program, rated by a fixed taste.

    .venv/bin/python benchmarks/widget_bank.py .../scripts/simulation --output FOLDER

The folder is that of a checkout of Command Center, with ``run_exhaustive.py`` and its ``question_bank_exhaustive.json``. No
backend is asked, so every scenario of a question is one that the program adds. FOLDER gets ``exhaustive_data.json`` and
``ratings.json``, which ``import_traces`` and ``train_dpo --source file`` read, and ``expected.json``: question to the
scenarios that suit it.

The taste: a widget is liked where the bank expects its scenario, in all drawings of it but every fourth; a share of the
thumbs (--noise) says the opposite.
"""

import argparse
import importlib.util
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PROGRAM, BANK = "run_exhaustive.py", "question_bank_exhaustive.json"
RATED_AT = "2026-02-02T00:00:00Z"


def main() -> None:
    options = _parser().parse_args()
    questions = json.loads((options.simulation / BANK).read_text(encoding="utf-8"))[: options.questions]
    entries = expand(options.simulation / PROGRAM, questions)
    ratings = rate(entries, questions, random.Random(options.seed), options.noise)
    options.output.mkdir(parents=True, exist_ok=True)
    run = {"run_id": "question_bank", "question_bank": BANK, "total_questions": len(questions), "failed_questions": 0}
    documents = {
        "exhaustive_data": {**run, "created_at": RATED_AT, "entries": entries},
        "ratings": {"ratings": ratings},
        "expected": {question["question"]: question["expected_scenarios"] for question in questions},
    }
    for name, document in documents.items():
        (options.output / f"{name}.json").write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    liked = sum(rating["rating"] == "up" for rating in ratings.values())
    print(f"{len(questions)} questions, {len(entries)} entries, {liked} liked: {options.output}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("simulation", type=Path, help="scripts/simulation of Command Center")
    parser.add_argument("--output", type=Path, required=True, help="folder for the three files")
    parser.add_argument("--questions", type=int, help="the first of the bank (all)")
    parser.add_argument("--noise", type=float, default=0.05, help="share of thumbs that are slips (0.05)")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def expand(program: Path, questions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """By Command Center's own ``expand_question``."""
    spec = importlib.util.spec_from_file_location("run_exhaustive", program)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    counter = [0]
    return [entry for question in questions for entry in module.expand_question(question, None, counter)]


def rate(
    entries: Sequence[Mapping[str, Any]], questions: Sequence[Mapping[str, Any]], rng: random.Random, noise: float
) -> dict[str, dict[str, Any]]:
    expected = {question["id"]: set(question["expected_scenarios"]) for question in questions}
    ratings = {}
    for entry, is_fourth in _with_fourth(entries):
        likes = entry["scenario"] in expected[entry["question_id"]] and not is_fourth
        thumb = "up" if likes != (rng.random() < noise) else "down"
        ratings[entry["entry_id"]] = {"rating": thumb, "tags": [], "notes": "", "rated_at": RATED_AT}
    return ratings


def _with_fourth(entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Whether an entry is a fourth drawing of its scenario for its question."""
    seen: dict[tuple[str, str], int] = {}
    for entry in entries:
        key = entry["question_id"], entry["scenario"]
        seen[key] = seen.get(key, 0) + 1
        yield entry, seen[key] % 4 == 0


if __name__ == "__main__":
    main()
