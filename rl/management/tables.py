"""Tables that several commands print, and rows as they would be trained, as lines for people."""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import shorten
from typing import Any

from rich.table import Table
from rich.text import Text

from rl.models import Evaluation
from rl.runs.preview import Preview

SHOWN, SHORT = 3, 160
"""Prompts whose answers are printed, and characters of each answer."""
MEASURED = {
    "reward": ("Mean reward of the answers to held-out prompts", "mean reward"),
    "success": ("Held-out tasks solved", "share solved"),
    "fields": ("Answers that are right", "share right"),
    "right": ("Answers that are right", "share right"),
}
"""Measure by what answers or episodes earned to the title and the head of its table."""
LABELS = {"base": "base model", "current": "version in use", "new": "new version"}


def evaluation_table(evaluation: Evaluation) -> Table:
    labels = {"base": LABELS["base"], "new": LABELS["new"]}
    if evaluation.against:
        labels = {**LABELS, "current": f"in use: {evaluation.against.name}"}
    if evaluation.artifact:
        labels = {
            "base": labels["base"],
            "weights": "weights as trained",
            "new": f"file {evaluation.artifact.quantization}",
        }
    pairs = "" if is_reward(evaluation.report) else f"{evaluation.pairs} pairs, "
    things = "tasks" if evaluation.report.get("measure") == "success" else "prompts"
    name = f"{evaluation.version}: {pairs}{evaluation.prompts} {things}"
    return models_table(name, evaluation.report, labels)


def evaluation_tables(evaluation: Evaluation) -> list[Table]:
    return list(filter(None, (evaluation_table(evaluation), evidence_table(evaluation.report))))


def is_reward(report: dict[str, Any]) -> bool:
    """Whether it is by what answers or episodes earned, not by preferences."""
    return report.get("measure") in MEASURED


def models_table(name: str, report: dict[str, Any], labels: dict[str, str]) -> Table:
    if is_reward(report):
        measured, head = MEASURED[report["measure"]]
        table = Table("", head, "95 % interval", title=f"{measured}, {name}", title_justify="left")
        for model, label in labels.items():
            reward = report["models"][model]["reward"]
            table.add_row(label, f"{reward['value']:.3f}", f"{reward['low']:.3f} to {reward['high']:.3f}")
        return table
    title = f"Held-out preference accuracy of {name}"
    table = Table("", "accuracy", "95 % interval", "margin (nats)", title=title, title_justify="left")
    for model, label in labels.items():
        accuracy, margin = report["models"][model]["accuracy"], report["models"][model]["margin"]
        interval = f"{accuracy['low']:.1%} to {accuracy['high']:.1%}"
        table.add_row(label, f"{accuracy['value']:.1%}", interval, f"{margin['value']:+.2f}" if margin else "-")
    return table


EVIDENCE = {
    "right": "right answers",
    "picks": "people's picks between both",
    "fresh": "fresh answers, by a judge",
    "margins": "held-out answers, by margins",
}


def evidence_table(report: Mapping[str, Any]) -> Table | None:
    """What speaks for and against the new version, the weightiest first, with an arrow at what decided; None for versions
    that are measured by rewards or tasks."""
    if "evidence" not in report:
        return None
    table = Table("", "", "preferred", "95 % interval", "prompts", title="Evidence", title_justify="left")
    for evidence in report["evidence"]:
        arrow = "→" if evidence["kind"] == report["decided_by"] else ""
        table.add_row(arrow, EVIDENCE[evidence["kind"]], *_describe_preference(evidence), str(evidence["prompts"]))
    return table


def _describe_preference(evidence: Mapping[str, Any]) -> tuple[str, str]:
    if "problem" in evidence:
        return "not known", "-"
    if share := evidence.get("share"):
        return f"{share['value']:.1%}", f"{share['low']:.1%} to {share['high']:.1%}"
    value, low, high = (100 * evidence["difference"][name] for name in ("value", "low", "high"))
    return f"{value:+.1f} points", f"{low:+.1f} to {high:+.1f}"


def group_table(report: Mapping[str, Any]) -> Table | None:
    """How the new version does for each group; None where none is looked at."""
    table = Table("group", "", "new version", "prompts", title_justify="left")
    for row in report.get("groups", {}).get("rows", ()):
        table.add_row(Text(row["group"]), "worse" if row["worse"] else "", row["figures"], str(row["prompts"]))
    return table if table.rows else None


def guard_table(report: Mapping[str, Any]) -> Table | None:
    """None where no model was asked anything."""
    guards = report.get("guards", {})
    if "rails" not in guards:
        return None
    title = f"Guard rails, from {guards['prompts']} answers of each model"
    table = Table("", "", "limit", "found", title=title, title_justify="left")
    for rail in guards["rails"]:
        state = "broken" if rail["broken"] else "not measured" if rail["value"] is None else "kept"
        limit = "-" if rail["limit"] is None else f"{rail['limit']:g}"
        table.add_row(rail["name"], state, limit, Text(rail["text"]))
    return table


def error_table(report: Mapping[str, Any]) -> Table | None:
    """Kinds of errors, and the mean reward, of the models' answers; None where there are none."""
    models = report.get("guards", {}).get("models")
    if not models:
        return None
    table = Table("", *(LABELS[name] for name in models), title="Answers", title_justify="left")
    for kind in models["new"]["errors"]:
        table.add_row(kind.replace("_", " "), *(f"{model['errors'][kind]:.1%}" for model in models.values()))
    table.add_row(
        "mean reward", *("-" if model["reward"] is None else f"{model['reward']:.3f}" for model in models.values())
    )
    return table


def answer_table(report: Mapping[str, Any]) -> Table | None:
    """What each model answered to a few prompts, as the report ranks them; None where none were asked."""
    samples = report.get("guards", {}).get("samples", [])[:SHOWN]
    if not samples:
        return None
    names = [name for name in LABELS if name in samples[0]]
    title = f"{len(samples)} of {report['guards']['prompts']} prompts, answers side by side"
    heads = ["prompt", *(LABELS[name] for name in names)]
    table = Table(*heads, title=title, title_justify="left", show_lines=True)
    for sample in samples:
        table.add_row(_shorten(sample["prompt"]), *(_answer(sample[name]) for name in names))
    return table


def _answer(answered: Mapping[str, Any]) -> Text:
    errors = ", ".join(answered["errors"]).replace("_", " ")
    return Text.assemble((f"{errors}: ", "red") if errors else "", _shorten(answered["answer"]))


def _shorten(text: str) -> Text:
    return Text(shorten(text, SHORT, placeholder=" …"))


def field_table(report: Mapping[str, Any]) -> Table | None:
    """How often each field of an answer is right; None where answers are not compared by fields."""
    if not report.get("fields"):
        return None
    title = f"By field; {report['errors']} of {report['answered']} answers of the new version cannot be read"
    table = Table("", "prompts", *LABELS.values(), title=title, title_justify="left")
    for field in report["fields"]:
        name = f"→ {field['name']}" if field["name"] == report["field"] else field["name"]
        table.add_row(Text(name), str(field["prompts"]), *(f"{field['models'][model]:.1%}" for model in LABELS))
    return table


def report_tables(report: Mapping[str, Any]) -> list[Table]:
    """What stands below the table of the models."""
    kinds = (evidence_table, group_table, field_table, guard_table, error_table, answer_table)
    return [table for kind in kinds if (table := kind(report))]


def verdict_line(evaluation: Evaluation) -> str:
    return f"gate: {evaluation.verdict}. {evaluation.report['reason']}"


def evaluation_document(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "agent": evaluation.version.agent.name,
        "version": evaluation.version.name,
        "against": evaluation.against.name if evaluation.against else None,
        "artifact": evaluation.artifact.path if evaluation.artifact else None,
        "pairs": evaluation.pairs,
        "prompts": evaluation.prompts,
        "verdict": evaluation.verdict,
        **evaluation.report,
    }


def task_table(tasks: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("task", "what is asked", title=f"First {len(tasks)} tasks", title_justify="left")
    for task in tasks:
        prompt = task.get("prompt") or task.get("question") or task
        if isinstance(prompt, list):  # of messages: the user's last
            prompt = next((message["content"] for message in reversed(prompt) if message["role"] == "user"), "")
        table.add_row(Text(str(task["task_id"])), Text(shorten(str(prompt), 100, placeholder=" …")))
    return table


LONGEST = 2_000
"""Characters of a text that are printed."""
_SAID = ("weight", "label", "label_source", "score", "score_source", "reward", "rewards")


def preview_lines(name: str, shown: Preview) -> Iterator[str]:
    """What is learned stands between brackets, a token each. ``name``: whose rows they are."""
    for number, row in enumerate(shown.rows, 1):
        tokens = [] if row["prompt_tokens"] is None else [f"{row['prompt_tokens']} tokens of prompt"]
        facts = [f"{what} {row[what]}" for what in _SAID if row.get(what) is not None]
        about = ", ".join([*tokens, *facts, f"ratings {len(row.get('feedback', ()))}"])
        yield f"{name}, row {number} ({about}): {printable(row['prompt'], last=True)}"
        for answer in row["answers"]:
            pieces = "".join(f"[{text}]" if own else text for text, own in answer["pieces"])
            yield f"  {answer['name']}: {printable(pieces)}"
    if shown.is_text:
        yield "the base model is not on this machine: rows are shown as texts, not as its tokens"
    for row in shown.left_out:
        yield f"{name}, left out: {printable(row['reason'])}: {printable(row['question'])}"
    if shown.problem:
        yield f"{name}: a run would end: {shown.problem}"
    for reason, count in shown.counts.items():
        yield f"{name}, {count:,} left out: {printable(reason)}"


def printable(text: str, last: bool = False) -> str:
    """What others wrote breaks its own lines, and tells the terminal nothing. A long text is its beginning, or its ``last``
    part."""
    if len(text) > LONGEST:
        text = f"… {text[-LONGEST:]}" if last else f"{text[:LONGEST]} …"
    return "".join(letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in text)
