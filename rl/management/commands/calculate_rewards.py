"""Rewards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandParser
from rich.table import Table

from rl.base.errors import RatchetError, UsageError
from rl.management.base import RatchetCommand, two_columns
from rl.management.options import read_options
from rl.models import Agent
from rl.rewards.report import RewardReport
from rl.scoring import stored as rewarding

NOTHING_WAITS = "No trace waits for its reward. --all computes those that have one again."


@dataclass(frozen=True, slots=True)
class Options:
    agent: str | None
    pending: bool
    all: bool
    limit: int | None
    dry_run: bool


class Command(RatchetCommand):
    help = "Compute the rewards of traces and store every component."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", help="only this agent's traces")
        which = parser.add_mutually_exclusive_group()
        which.add_argument(
            "--pending", action="store_true", help="traces that are new or were judged since (the default)"
        )
        which.add_argument("--all", action="store_true", help="every trace, also those that have their reward")
        parser.add_argument("--limit", type=int, metavar="N", help="at most N traces, the oldest first")
        parser.add_argument("--dry-run", action="store_true", help="compute, and write nothing")

    def run(self, **arguments: Any) -> None:
        options = read_options(Options, arguments)
        if options.limit is not None and options.limit < 1:
            raise UsageError(f"--limit must be at least 1, not {options.limit}")
        agent = Agent.named(options.agent) if options.agent else None
        dry_run = options.dry_run
        found = rewarding.calculate(
            agent, pending=not options.all, limit=options.limit, dry_run=dry_run, report=self.report
        )
        document = {"agent": agent.name if agent else None, "dry_run": dry_run, **found.as_dict()}
        title = "Rewards (dry run, nothing was written)" if dry_run else "Rewards"
        tables = [_counts(title, document), _components(document)] if found.read or found.unusable else []
        self.result(document, *tables, lines=list(_problems(found)) or ([] if tables else [NOTHING_WAITS]))
        if found.unusable:
            raise UsageError(f"left out: {', '.join(found.unusable)}; correct their settings in the admin")
        if found.broken:
            raise RatchetError(f"{found.broken:,} traces have no reward because {', '.join(found.failures)} broke")


def _counts(title: str, document: dict[str, Any]) -> Table:
    labels = document["labels"]
    return two_columns(
        title,
        {
            "traces": document["read"],
            "got a reward": document["rewarded"],
            "nothing applies": document["nothing_applies"],
            "a reward broke": document["broken"],
            "changed meanwhile, still wait": document["changed"],
            "good": labels["good"],
            "bad": labels["bad"],
            "without a label": labels["unlabelled"],
        },
    )


def _components(document: dict[str, Any]) -> Table:
    table = Table("reward", "count", "mean", "std", "abstained", "broken")
    for name, figures in document["components"].items():
        table.add_row(name, *_figures(figures), f"{figures['abstained']:,}", f"{figures['broken']:,}")
    table.add_section()
    table.add_row("combined", *_figures(document["combined"]), "", "")
    return table


def _figures(figures: dict[str, Any]) -> Iterator[str]:
    yield f"{figures['count']:,}"
    for name in ("mean", "std"):
        yield "-" if figures[name] is None else f"{figures[name]:.3f}"


def _problems(found: RewardReport) -> Iterator[str]:
    for name, failures in found.failures.items():
        yield f"broken {failures.count:,}: {name}"
        yield from (f"  trace {one['trace']}: {one['reason']}" for one in failures.examples)
    for agent, reason in found.unusable.items():
        yield f"left out the agent {agent}: {reason}"
