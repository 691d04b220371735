"""A job of a system that people come from, learned by the default method: right answers before and after, minutes, memory.

    .venv/bin/python benchmarks/systems.py filer --rows 80 --test 80
    .venv/bin/python benchmarks/systems.py prioritizer --json
    .venv/bin/python benchmarks/systems.py miniagent --rows 40 --test 40

Rows of a fixed taste (systems_rows.py) are imported as the system writes them, ``train_mpo`` runs with nothing set, and what
it led to, promoted or not, answers questions that are not among the rows, said freely. ``miniagent``: its programs are
imitated by ``train_agent --sft-first``, and counted are held-out tasks that a call of the tool solves. ``--options`` goes on
to the command, such as ``--options "--max-steps 40"`` for a shorter look: the line says so.

``commonest``: right by field for who always says the commonest value; ``memory_mib``: the most that any process held.
"""

import argparse
import json
import resource
import shlex
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import systems_rows
import systems_tasks
from jobs_site import Site, set_up

AGENTS: Final = {"filer": "FILER", "prioritizer": "PRIORITIZER", "widgets": "widgets", "scored": "scored"}
"""Job to agent: OCD's decisions, the widget choice of Command Center, of which ``--rows`` are questions, and N3's scored
answers, of which they are messages."""
TASKS: Final = {"miniagent": systems_tasks.train_miniagent}
"""Job to what trains its agent, and counts the tasks that it solves."""
SHOWN: Final = 5


def main() -> None:
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        set_up(folder)
        asked = {"job": options.job, "rows": options.rows, "options": options.options}
        document = asked | (play if options.job in TASKS else measure)(options, folder)
        document["memory_mib"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(json.dumps(document, indent=1, ensure_ascii=False) if options.json else _say(document))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("job", choices=(*AGENTS, *TASKS))
    parser.add_argument("--rows", type=int, default=80)
    parser.add_argument("--test", type=int, default=80)
    parser.add_argument("--options", default="", help="of the command that trains")
    parser.add_argument("--folder", type=Path, help="keeps the site here")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def play(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    site = Site(folder / options.job, options.job)
    site.open()
    return TASKS[options.job](site, options.rows, options.test, *shlex.split(options.options))


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    import jobs_test
    from learning_models import load_base

    from rl.data_formatter.answer_kinds import find_kind

    agent, base = AGENTS[options.job], load_base()
    rows, test = _rows(options.job, options.rows, test=False), _questions(options.job, options.test, test=True)
    right = _questions(options.job, options.rows, test=False)
    kind = find_kind([label for _, label in right])
    before = jobs_test.count(jobs_test.ask(base, None, test), test, kind)
    site = Site(folder / options.job, agent)
    site.open()
    _add(site, options.job, rows)
    led_to = site.train(*shlex.split(options.options))
    document = {"before": before, **led_to}
    if led_to["weights"]:
        answers = jobs_test.ask(base, Path(led_to["weights"]), test)
        shown = [{"right": label, "said": answer} for answer, (_, label) in zip(answers, test, strict=True)]
        document |= {"after": jobs_test.count(answers, test, kind), "answers": shown[:SHOWN]}
        if kind.kind == "structured":
            document |= {"by_field": _by_field(kind, answers, test), "commonest": _commonest(right, test)}
    return document


def _rows(job: str, count: int, *, test: bool) -> list[dict[str, Any]]:
    make = getattr(systems_rows, job)
    rows: list[dict[str, Any]] = make(count, test=test)
    return rows


def _add(site: Site, job: str, rows: list[dict[str, Any]]) -> None:
    if job != "widgets":
        site.add(rows, "n3" if job == "scored" else "ocd_decision")
        return
    ratings = {row["entry_id"]: {"rating": row.pop("rating"), "tags": [], "notes": ""} for row in rows}
    files = {"data": {"entries": rows}, "ratings": {"ratings": ratings}}
    arguments = []
    for name, document in files.items():
        file = site.folder / f"{name}.json"
        file.write_text(json.dumps(document), encoding="utf-8")
        arguments += [f"--{name}-file", str(file)]
    site.manage("import_traces", "--agent", site.agent, *arguments)


def _questions(job: str, count: int, *, test: bool) -> list[tuple[Any, str]]:
    """Prompts as they are asked, each once, with the right answer."""
    from rl.data_formatter.wording import ask_for_decision
    from rl.from_systems.command_center.wording import build_combined_dpo_pairs
    from rl.from_systems.ocd.records import canonical

    rows = _rows(job, count, test=test)
    if job == "scored":
        right = {row["prompt"]: row["response"] for row in rows if row["score"] > 0.5}
        return [([{"role": "user", "content": prompt}], answer) for prompt, answer in right.items()]
    if job != "widgets":
        states = [[{"role": "user", "content": json.dumps(row["state"])}] for row in rows]
        asked = [list(ask_for_decision(AGENTS[job], state)) for state in states]
        return [(prompt, canonical(row["action"])) for prompt, row in zip(asked, rows, strict=True)]
    pairs = build_combined_dpo_pairs(rows, systems_rows.SCENARIOS)
    by_prompt = {json.dumps(pair.prompt): (list(pair.prompt), pair.chosen) for pair in pairs}
    return list(by_prompt.values())


def _by_field(kind: Any, answers: list[str], test: list[tuple[Any, str]]) -> dict[str, int]:
    right: Counter[str] = Counter()
    for answer, (_, label) in zip(answers, test, strict=True):
        right.update(kind.compare(answer, label))
    return dict(right)


def _commonest(right: list[tuple[Any, str]], test: list[tuple[Any, str]]) -> dict[str, int]:
    said = {}
    accepted, labels = ([json.loads(label) for _, label in part] for part in (right, test))
    for name in dict.fromkeys(name for answer in accepted for name in answer):
        most = Counter(json.dumps(answer[name]) for answer in accepted if name in answer).most_common(1)[0][0]
        said[name] = sum(json.dumps(label.get(name)) == most for label in labels)
    return said


def _say(document: dict[str, Any]) -> str:
    after = document.get("after", {"right": "no version", "of": document["before"]["of"]})
    counts = f"right {document['before']['right']} before, {after['right']} after, of {after['of']}"
    cost = f"{document['seconds'] / 60:.1f} minutes, {document['memory_mib']:,} MiB"
    lines = [f"{document['job']}, {document['rows']} rows: {counts}; {cost}"]
    lines += [
        f"  {name}: {document[name]}" for name in ("by_field", "commonest", "options", "verdict") if document.get(name)
    ]
    lines += [f"  right: {answer['right']}\n  said:  {answer['said']}" for answer in document.get("answers", ())]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
