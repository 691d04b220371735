"""Measure."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from rl.base.errors import GateRejected, NotEnoughData, UsageError
from rl.base.files import write_text
from rl.evaluation import evaluate as evaluation
from rl.evaluation import exported_file, lm_eval
from rl.evaluation.held_out import latest_training_set
from rl.evaluation.judges.servers import OWN, find_server
from rl.evaluation.own_rows import has_answers, read_answers, read_pairs
from rl.evaluation.subject import EvaluationOptions
from rl.management.base import RATINGS, RatchetCommand, choose_agent
from rl.management.options import CommandOptions, argument, option
from rl.management.tables import LABELS, evaluation_document, evaluation_table, models_table, report_tables
from rl.models import Agent, Deployment, Evaluation, ModelVersion
from rl.versions.versions import find_version


class Options(CommandOptions):
    agent: str | None = option("--agent-type", help="default: the only one with ratings")
    version_name: str | None = argument("--version", one_of="what", metavar="NAME", help="default: the newest")
    checkpoint: str | None = option(
        one_of="what", help="an adapter's or a whole model's directory instead of a version"
    )
    test_data: str | None = option(
        "--test-file", one_of="rows", metavar="FILE", help="JSON lines of your own: pairs, or answers that are right"
    )
    artifact: bool = option(one_of="rows", action="store_true", help="measure the exported GGUF file, not the weights")
    quantization: str | None = option(help="level of that file; default: the agent's")
    compare_base: bool = option(action="store_true", help="judge against the base, not the version in use")
    lm_eval: str | None = option(metavar="TASK.yaml", help="a task of lm-eval that both versions are measured on")
    judge: str | None = option(
        metavar="NAME", help="of fresh answers: a name of JUDGES_FILE, or own; default: the agent's"
    )
    output: str | None = option(help="write the whole report here as JSON")


class Command(RatchetCommand):
    help = "Measure a version or a checkpoint on held-out rows, beside the base model and the version in use."

    def run(self, options: Options) -> None:
        _check(options)
        agent = choose_agent(options.agent, RATINGS, self.report)
        if path := options.checkpoint or options.test_data:
            document = self._measure_unstored(agent, options)
            self._show(document, models_table(Path(path).name, document, LABELS), options.output)
        else:
            row = self._measure_stored(agent, options)
            self._show(evaluation_document(row), evaluation_table(row), options.output)

    def _measure_stored(self, agent: Agent, options: Options) -> Evaluation:
        version = find_version(agent, options.version_name)
        if not options.artifact:
            rows = latest_training_set(agent, version)
            return evaluation.evaluate(version, rows, self.report, _read_evaluation_options(options))
        file = exported_file.find_file(version, options.quantization or agent.export_quantization)
        if row := exported_file.judge(version, file, latest_training_set(agent, version), self.report):
            return row
        raise NotEnoughData(f"the file of {version} cannot be judged; the log above says why")

    def _measure_unstored(self, agent: Agent, options: Options) -> dict[str, Any]:
        measured: ModelVersion | Path
        if options.checkpoint:
            measured, version = Path(options.checkpoint).expanduser(), None
        else:
            measured = version = find_version(agent, options.version_name)
        if options.test_data:
            file, compared = Path(options.test_data).expanduser(), (version, Deployment.champion(agent))
            if has_answers(file):
                evaluate, rows = evaluation.evaluate_answers, read_answers(file, *compared)
            else:
                evaluate, rows = evaluation.evaluate_pairs, read_pairs(file, *compared)
            return evaluate(agent, measured, rows, self.report, _read_evaluation_options(options))
        assert isinstance(measured, Path)  # noqa: S101  a version on held-out rows is stored
        return evaluation.evaluate_checkpoint(agent, measured, self.report, _read_evaluation_options(options))

    def _show(self, document: dict[str, Any], table: Table, output: str | None) -> None:
        task = [lm_eval.in_words(document["task"])] if "task" in document else []
        lines = [*task, f"gate: {document['verdict']}. {document['reason']}"]
        self.result(document, table, *report_tables(document), lines=lines)
        write_document(output, document)
        if document["verdict"] == Evaluation.Verdict.REJECT:
            raise GateRejected("the gate rejects it")


def _read_evaluation_options(options: Options) -> EvaluationOptions:
    """Raises BadFile for a task that cannot be used."""
    task = lm_eval.check(options.lm_eval) if options.lm_eval else None
    return EvaluationOptions(options.compare_base, task, options.judge)


def _check(options: Options) -> None:
    """Raises UsageError for options that do not go together, for a judge that is not registered, and for an --output that
    cannot be written."""
    require_writable(options.output)
    if options.quantization and not options.artifact:
        raise UsageError("--quantization says which file --artifact measures: give both, or neither")
    if options.judge and options.judge != OWN:
        find_server(options.judge)
    not_of_files = [name for name in ("checkpoint", "compare_base", "lm_eval", "judge") if getattr(options, name)]
    if options.artifact and not_of_files:
        what = f"--{not_of_files[0].replace('_', '-')}"
        raise UsageError(f"--artifact compares a version's file with its weights, and {what} does not go with it")


def require_writable(output: str | None) -> None:
    """What the document is about may take hours: what is wrong with the path is said before. Raises UsageError."""
    if output is None:
        return
    path = Path(output).expanduser()
    if path.is_dir():
        raise UsageError(f"--output {output} is a directory; name a file")
    if not path.parent.is_dir():
        raise UsageError(f"--output {output} cannot be written: there is no directory {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"--output {output} cannot be written: {path.parent} is not writable")


def write_document(output: str | None, document: Mapping[str, Any]) -> None:
    """Raises UsageError."""
    if output is None:
        return
    try:
        write_text(Path(output).expanduser(), json.dumps(document, indent=2, default=str, ensure_ascii=False))
    except OSError as error:
        raise UsageError(f"--output {output} cannot be written: {error.strerror}") from error
