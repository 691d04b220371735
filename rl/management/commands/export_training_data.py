"""Rows for other tools."""

from pathlib import Path

from rl.base.errors import NotEnoughData, UsageError
from rl.dataset_builder import DataOptions
from rl.dataset_builder.exporting import FORMATS, ExportFilters
from rl.dataset_builder.exporting.export import FILE_FORMATS, SPLITS, ExportReport, ExportRequest, export, file_format
from rl.management.base import ANSWERS, RatchetCommand, choose_agent, two_columns
from rl.management.options import CommandOptions, argument, option
from rl.models import Agent


class Options(CommandOptions):
    agent: str | None = argument("--agent-type", "--agent", help="whose answers; default: the only one with any")
    format: str = option(choices=list(FORMATS), required=True)
    output: str = option(default="", help="the file; one that is there is replaced")
    file_format: str | None = option(choices=FILE_FORMATS, help="default: by the suffix of the file")
    limit: int | None = option(help="most rows to write")
    min_reward: float | None = option(
        help="leave out answers with a smaller reward, or none (0 to 1; decisions: -5 to 5)"
    )
    require_feedback: bool = option(action="store_true", help="only answers that somebody judged")
    split: str = option(choices=SPLITS, default="train", help="the prompts to train on, those held out, or all")
    val_split: float = option(default=0.2, help="share of the prompts held out (0.2)")
    dry_run: bool = option(action="store_true", help="count the rows, and write nothing")


class Command(RatchetCommand):
    help = "Write an agent's answers, labels and rewards as a file that other training tools read."

    def run(self, options: Options) -> None:
        agent = choose_agent(options.agent, ANSWERS, self.report)
        if not options.output and not options.dry_run:
            raise UsageError("--output is missing: name a file .jsonl or .parquet, or count first with --dry-run")
        path = Path(options.output).expanduser() if options.output else None
        filters = ExportFilters(
            data=DataOptions(pair_type=agent.pair_type, val_split=options.val_split),
            min_reward=options.min_reward,
            require_feedback=options.require_feedback,
        )
        request = ExportRequest(format=options.format, filters=filters, split=options.split, limit=options.limit)
        kind = file_format(path, options.file_format)
        try:
            done = export(agent, request, None if options.dry_run else path, kind, self.report)
        except NotEnoughData as error:
            raise NotEnoughData(f"{error}; {_advice(agent, request.format)}") from error
        document = {
            "agent": agent.name,
            "format": request.format,
            "path": str(path) if path else None,
            "file_format": kind,
            "dry_run": options.dry_run,
            "rows": done.rows,
            "split": request.split,
            "other_side": done.other_side,
            "limited": done.limited,
            "skipped": dict(done.skipped.most_common()),
        }
        left_out = [two_columns("Left out", dict(done.skipped.most_common()))] if done.skipped else []
        self.result(document, *left_out, lines=[_line(done, options, path)])


def _advice(agent: Agent, row_format: str) -> str:
    if row_format == "decision":
        return f"it is made of decisions whose rewards 'calculate_rewards --agent {agent.name}' has computed"
    return f"'training_plan --agent {agent.name}' says what each method needs"


def _line(done: ExportReport, options: Options, path: Path | None) -> str:
    what = f"{done.rows:,} row{'' if done.rows == 1 else 's'} of format {options.format}"
    where = "would be written" if options.dry_run else f"in {path}"
    sides = {"train": "held out for testing: --split all takes them too", "heldout": "to train on"}
    more = f"; {done.other_side:,} more {sides[options.split]}" if done.other_side and not done.limited else ""
    return f"{what} {where}{more}"
