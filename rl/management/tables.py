"""Tables that several commands print."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from rl.models import Evaluation

LABELS = {"base": "base model", "current": "version in use", "new": "new version"}


def evaluation_table(evaluation: Evaluation) -> Table:
    labels = {"base": LABELS["base"], "new": LABELS["new"]}
    if evaluation.against:
        labels = {**LABELS, "current": f"in use: {evaluation.against.name}"}
    title = (
        f"Held-out preference accuracy of {evaluation.version}: {evaluation.pairs} pairs, {evaluation.prompts} prompts"
    )
    return models_table(title, evaluation.report["models"], labels)


def models_table(title: str, models: dict[str, Any], labels: dict[str, str]) -> Table:
    table = Table("", "accuracy", "95 % interval", "margin (nats)", "near ties", title=title, title_justify="left")
    for name, label in labels.items():
        figures = models[name]
        accuracy, margin = figures["accuracy"], figures["margin"]
        interval = f"{accuracy['low']:.1%} to {accuracy['high']:.1%}"
        table.add_row(
            label,
            f"{accuracy['value']:.1%}",
            interval,
            f"{margin['value']:+.2f}" if margin else "-",
            str(figures["near_ties"]),
        )
    return table


def verdict_line(evaluation: Evaluation) -> str:
    return f"gate: {evaluation.verdict}. {evaluation.report['reason']}"


def evaluation_document(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "agent": evaluation.version.agent.name,
        "version": evaluation.version.name,
        "against": evaluation.against.name if evaluation.against else None,
        "pairs": evaluation.pairs,
        "prompts": evaluation.prompts,
        "verdict": evaluation.verdict,
        "ratings_needed": evaluation.ratings_needed,
        **evaluation.report,
    }
