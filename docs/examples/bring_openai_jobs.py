"""Brings the files and the list of jobs of OpenAI's fine-tuning API here.

OPENAI_API_KEY=sk-… RATCHET_API_KEY=sk_… python bring_openai_jobs.py --to http://127.0.0.1:8000/v1 [--train smollm2]

Writes openai_jobs.json: old id to new id of each file, and the jobs as they were. Running it again goes on where it stopped.
With --train every job that succeeded starts anew on that base model, with its method and its hyper-parameters. Needs the
package openai.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import openai

NUMBERS = {
    "supervised": ("n_epochs", "batch_size", "learning_rate_multiplier"),
    "dpo": ("n_epochs", "batch_size", "learning_rate_multiplier", "beta"),
    "reinforcement": ("n_epochs", "batch_size", "learning_rate_multiplier"),
}


def bring_files(old: openai.OpenAI, new: openai.OpenAI, book: dict[str, Any], target: Path) -> None:
    """Each as soon as it was read; what cannot be read any more is told."""
    for file in old.files.list(purpose="fine-tune"):
        if file.id in book["files"]:
            continue
        try:
            content = old.files.content(file.id).read()
            sent = new.files.create(file=(file.filename, content), purpose="fine-tune")
        except openai.APIStatusError as error:
            print(f"{file.id} {file.filename}: {error.message}")
            continue
        book["files"][file.id] = sent.id
        keep(book, target)
        print(f"{file.id} {file.filename}: {sent.id}")


def bring_jobs(old: openai.OpenAI, book: dict[str, Any], target: Path) -> None:
    for job in old.fine_tuning.jobs.list(limit=100):
        book["jobs"].setdefault(job.id, {"was": job.model_dump(mode="json")})
    keep(book, target)


def train_again(new: openai.OpenAI, base: str, book: dict[str, Any], target: Path) -> None:
    for name, entry in book["jobs"].items():
        was, files = entry["was"], book["files"]
        if was["status"] != "succeeded" or "is" in entry or was["training_file"] not in files:
            continue
        kind = (was.get("method") or {}).get("type", "supervised")
        settings = (was.get("method") or {}).get(kind) or {"hyperparameters": was["hyperparameters"]}
        given = settings.get("hyperparameters") or {}
        numbers = {key: given[key] for key in NUMBERS[kind] if given.get(key) is not None}
        of_kind = {**({"grader": settings["grader"]} if kind == "reinforcement" else {}), "hyperparameters": numbers}
        begun = new.fine_tuning.jobs.create(
            model=base,
            training_file=files[was["training_file"]],
            validation_file=files.get(was.get("validation_file")),
            suffix=was.get("user_provided_suffix") or name,
            seed=was["seed"],
            method={"type": kind, kind: of_kind},  # type: ignore[misc]
        )
        entry["is"] = begun.id
        keep(book, target)
        print(f"{name}: {begun.id}")


def keep(book: dict[str, Any], target: Path) -> None:
    partial = target.with_suffix(".partial")
    partial.write_text(json.dumps(book, indent=1), encoding="utf-8")
    partial.replace(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", required=True, help="the address of this site, with /v1")
    parser.add_argument("--train", default="", help="start the jobs anew on this base model")
    parser.add_argument("--book", type=Path, default=Path("openai_jobs.json"))
    options = parser.parse_args()
    old = openai.OpenAI()
    new = openai.OpenAI(base_url=options.to, api_key=os.environ["RATCHET_API_KEY"])
    book = json.loads(options.book.read_text()) if options.book.exists() else {"files": {}, "jobs": {}}
    bring_files(old, new, book, options.book)
    bring_jobs(old, book, options.book)
    if options.train:
        train_again(new, options.train, book, options.book)


if __name__ == "__main__":
    main()
