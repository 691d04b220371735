from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from rl.errors import GateRejected, UsageError
from rl.evaluation import choosing
from rl.evaluation import evaluate as evaluation
from rl.files import write_text
from rl.management.base import RatchetCommand
from rl.management.tables import LABELS, evaluation_document, evaluation_table, models_table, verdict_line
from rl.models import Agent, Evaluation


class Command(RatchetCommand):
    help = "Measure a version or a checkpoint on held-out rows, beside the base model and the version in use."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", required=True)
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--version", dest="version_name", metavar="NAME", help="default: the newest")
        what.add_argument("--checkpoint", help="an adapter's or a whole model's directory instead of a version")
        parser.add_argument(
            "--compare-base", action="store_true", help="judge against the base, not the version in use"
        )
        parser.add_argument("--output", help="write the whole report here as JSON")

    def run(self, **options: Any) -> None:
        agent = Agent.named(options["agent"])
        _require_writable(options["output"])
        if options["checkpoint"]:
            self._checkpoint(agent, options)
        else:
            self._version(agent, options)

    def _version(self, agent: Agent, options: dict[str, Any]) -> None:
        version = choosing.find_version(agent, options["version_name"])
        row = evaluation.evaluate(
            version, choosing.latest_training_set(agent, version), self.report, against_base=options["compare_base"]
        )
        document = evaluation_document(row)
        self.result(document, evaluation_table(row), lines=[verdict_line(row)])
        _write(options["output"], document)
        if row.verdict == Evaluation.Verdict.REJECT:
            raise GateRejected(f"{version} is worse than what it was compared with")

    def _checkpoint(self, agent: Agent, options: dict[str, Any]) -> None:
        directory = Path(options["checkpoint"]).expanduser()
        document = evaluation.evaluate_checkpoint(agent, directory, self.report, against_base=options["compare_base"])
        table = models_table(directory.name, document, LABELS)
        self.result(document, table, lines=[f"gate: {document['verdict']}. {document['reason']}"])
        _write(options["output"], document)
        if document["verdict"] == Evaluation.Verdict.REJECT:
            raise GateRejected(f"{directory} is worse than what it was compared with")


def _require_writable(output: str | None) -> None:
    """Measuring takes minutes to hours: what is wrong with the path is said before."""
    if output is None:
        return
    path = Path(output).expanduser()
    if path.is_dir():
        raise UsageError(f"--output {output} is a directory; name a file")
    if not path.parent.is_dir():
        raise UsageError(f"--output {output} cannot be written: there is no directory {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"--output {output} cannot be written: {path.parent} is not writable")


def _write(output: str | None, document: dict[str, Any]) -> None:
    if output is None:
        return
    try:
        write_text(Path(output).expanduser(), json.dumps(document, indent=2, default=str, ensure_ascii=False))
    except OSError as error:
        raise UsageError(f"--output {output} cannot be written: {error.strerror}") from error
