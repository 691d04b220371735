"""Rewards."""

from collections.abc import Iterator

from rich.table import Table

from rl.base.errors import RatchetError, UsageError
from rl.management.base import RatchetCommand, two_columns
from rl.management.options import CommandOptions, option
from rl.models import Agent
from rl.rewards.summary import MeanAndSpread, RewardReport, RewardSummary
from rl.scoring import stored as rewarding

NOTHING_WAITS = "No trace waits for its reward. --all computes those that have one again."


class Options(CommandOptions):
    agent: str | None = option("--agent-type", help="only this agent's traces")
    pending: bool = option(
        one_of="which", action="store_true", help="traces that are new or were judged since (the default)"
    )
    all: bool = option(one_of="which", action="store_true", help="every trace, also those that have their reward")
    limit: int | None = option(metavar="N", help="at most N traces, the oldest first")
    dry_run: bool = option(action="store_true", help="compute, and write nothing")


class Command(RatchetCommand):
    help = "Compute the rewards of traces and store every component."

    def run(self, options: Options) -> None:
        if options.limit is not None and options.limit < 1:
            raise UsageError(f"--limit must be at least 1, not {options.limit}")
        agent = Agent.by_name(options.agent) if options.agent else None
        dry_run = options.dry_run
        report = rewarding.calculate(
            agent, pending=not options.all, limit=options.limit, dry_run=dry_run, report=self.report
        )
        document = {"agent": agent.name if agent else None, "dry_run": dry_run, **report.as_dict()}
        title = "Rewards (dry run, nothing was written)" if dry_run else "Rewards"
        tables = [_counts(title, report), _components(report.summary)] if report.read or report.unusable else []
        self.result(document, *tables, lines=list(_problems(report)) or ([] if tables else [NOTHING_WAITS]))
        if report.unusable:
            raise UsageError(f"left out: {', '.join(report.unusable)}; correct their settings in the admin")
        if report.broken:
            raise RatchetError(f"{report.broken:,} traces have no reward because {', '.join(report.failures)} broke")


def _counts(title: str, report: RewardReport) -> Table:
    counts = {
        "traces": report.read,
        "got a reward": report.rewarded,
        "nothing applies": report.nothing_applies,
        "a reward broke": report.broken,
        "changed meanwhile, still wait": report.changed,
        "good": report.summary.good,
        "bad": report.summary.bad,
        "without a label": report.summary.unlabelled,
    }
    return two_columns(title, counts)


def _components(summary: RewardSummary) -> Table:
    table = Table("reward", "count", "mean", "std", "abstained", "broken")
    for name, component in summary.components.items():
        table.add_row(name, *_cells(component), f"{component.abstained:,}", f"{component.broken:,}")
    table.add_section()
    table.add_row("combined", *_cells(summary.combined), "", "")
    return table


def _cells(figures: MeanAndSpread) -> Iterator[str]:
    values = figures.as_dict()
    yield f"{figures.count:,}"
    yield from ("-" if values[name] is None else f"{values[name]:.3f}" for name in ("mean", "std"))


def _problems(report: RewardReport) -> Iterator[str]:
    for name, failures in report.failures.items():
        yield f"broken {failures.count:,}: {name}"
        yield from (f"  trace {example['trace']}: {example['reason']}" for example in failures.examples)
    for agent, reason in report.unusable.items():
        yield f"left out the agent {agent}: {reason}"
