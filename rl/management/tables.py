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
    pairs = "" if is_reward(evaluation.report) else f"{evaluation.pairs} pairs, "
    name = f"{evaluation.version}: {pairs}{evaluation.prompts} prompts"
    return models_table(name, evaluation.report, labels)


def is_reward(report: dict[str, Any]) -> bool:
    return report.get("measure") == "reward"


def models_table(name: str, report: dict[str, Any], labels: dict[str, str]) -> Table:
    """``report``: of an evaluation; ``name``: what was measured."""
    if is_reward(report):
        return _reward_table(f"Mean reward of the answers to held-out prompts, {name}", report["models"], labels)
    return _accuracy_table(f"Held-out preference accuracy of {name}", report["models"], labels)


def _reward_table(title: str, models: dict[str, Any], labels: dict[str, str]) -> Table:
    table = Table("", "mean reward", "95 % interval", title=title, title_justify="left")
    for name, label in labels.items():
        reward = models[name]["reward"]
        table.add_row(label, f"{reward['value']:.3f}", f"{reward['low']:.3f} to {reward['high']:.3f}")
    return table


def _accuracy_table(title: str, models: dict[str, Any], labels: dict[str, str]) -> Table:
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
