"""Two models on a task of lm-evaluation-harness 0.4, which is a package of its own: it runs as a child, and offline.

A task file is looked at before it runs: one task, on data of its own folder. That keeps a mistake from measuring on other
data than a person thinks. It does not protect: ``!function`` in such a file runs Python of whoever wrote it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import yaml
from django.conf import settings

from rl.base.errors import BadFile, TrainingFailed, UsageError
from rl.base.foreign_programs import system_variables
from rl.base.measurements import Interval
from rl.base.outside_files import read_text
from rl.base.records import Report
from rl.evaluation import Contest
from rl.evaluation.stats.intervals import mean_interval
from rl.lm.model_path import check_model_path, check_weights, is_adapter, is_reward_model

_SPLITTING = ",*?[]"
"""lm-eval takes a path for a list, or for a pattern, when it has one of these."""


class _Loader(yaml.SafeLoader):
    """``!function`` is a text, and is not followed."""


_Loader.add_constructor("!function", lambda _, node: str(node.value))


def check(named: str) -> Path:
    """The absolute path. Raises UsageError for what is not a task file, and BadFile for one that names files elsewhere."""
    file = Path(named).expanduser().resolve()
    if not file.is_file():
        raise UsageError(f"--lm-eval {named}: there is no such file")
    if file.suffix != ".yaml" or any(letter in str(file) for letter in _SPLITTING):
        raise UsageError(f"--lm-eval {named}: lm-eval needs a path that ends with .yaml and has none of {_SPLITTING}")
    task = _read(file).get("task")
    if not isinstance(task, str):
        raise BadFile(file, "it has to describe one task, named by a text", "task")
    _check_locations(file, file.parent, {file})
    return file


def _check_locations(file: Path, folder: Path, seen: set[Path]) -> None:
    """Included files are relative to the file that includes them, data to the folder of the task, where lm-eval runs."""
    task = _read(file)
    included = [file.parent / named for named in _paths(task.get("include"))]
    arguments = task.get("dataset_kwargs")
    data = [arguments.get("data_files"), arguments.get("data_dir")] if isinstance(arguments, dict) else []
    for path in (*included, *(folder / named for named in _paths(data))):
        if not path.resolve().is_relative_to(folder) or ":/" in str(path):
            raise BadFile(file, f"{path} is not in the folder of the task; put it there")
    for other in {path.resolve() for path in included} - seen:
        _check_locations(other, folder, {*seen, other})


def _paths(value: Any) -> Iterator[str]:
    """The paths in a text, a list or a mapping of them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _paths(part)


def _read(file: Path) -> dict[str, Any]:
    try:
        task = yaml.load(read_text(file), Loader=_Loader)  # noqa: S506  a SafeLoader
    except yaml.YAMLError as error:
        raise BadFile(file, f"it is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(task, dict):
        raise BadFile(file, "it is not a mapping: a task file has task, dataset_path and more")
    return task


PACKAGE: Final = "lm_eval==0.4.13"
_ERROR = re.compile(r"[\w.]*(Error|Exception|Interrupt)\b")


def measure(contest: Contest, task: Path, report: Report) -> TaskScores:
    """The new version and the one in use, or its base model, one after the other.

    Raises UsageError where lm-eval is not installed or there is no answer to measure, and TrainingFailed with the last
    error of lm-eval when it fails."""
    if contest.weights and is_reward_model(contest.weights):
        raise UsageError("--lm-eval measures answers, and a reward model gives none")
    python = interpreter()
    base, weights, _ = contest.current or (contest.base_model, None, None)
    new = _measure(python, task, contest.base_model, contest.weights, "the new version", report)
    current = _measure(python, task, base, weights, "the version in use" if weights else "the base model", report)
    return compare(new, current)


def interpreter() -> str:
    """A Python that has lm-eval: this one, else the one of the setting. Raises UsageError."""
    if find_spec("lm_eval"):
        return sys.executable
    named = settings.LM_EVAL_PYTHON
    if not named:
        raise UsageError(
            f"lm-eval is not installed: pip install {PACKAGE}, or set LM_EVAL_PYTHON to the Python of an environment with it"
        )
    if program := shutil.which(Path(named).expanduser()):
        return str(Path(program).absolute())  # not resolved: the link is what makes it the Python of its environment
    raise UsageError(
        f"LM_EVAL_PYTHON is {named}, which is not a program: name the Python of an environment with lm-eval"
    )


def _measure(python: str, task: Path, base: str, weights: Path | None, who: str, report: Report) -> ModelScore:
    report("log", {"text": f"lm-eval: {task.name}, {who}"})
    with tempfile.TemporaryDirectory(prefix="ratchet-lm-eval-") as name:
        folder = Path(name)
        config = folder / "run.yaml"  # JSON is YAML
        described = {
            "model": "hf",  # on the first GPU, and on the CPU where there is none
            "model_args": _model(base, weights),
            "tasks": [str(task)],
            "include_path": str(task.parent),
            "batch_size": 4,
            "output_path": str(folder / "out/results.json"),
            "log_samples": True,
        }
        config.write_text(json.dumps(described), encoding="utf-8")
        _run([python, "-m", "lm_eval", "run", "--config", str(config)], task, folder)
        return read(folder / "out")


def _model(base: str, weights: Path | None) -> dict[str, str]:
    """Absolute paths: the child works in the folder of the task."""
    if weights and not is_adapter(weights):
        return {"pretrained": str(check_weights(weights, TrainingFailed).resolve())}
    folder = Path(check_model_path(base))
    pretrained = str(folder.resolve()) if folder.is_dir() else base
    return {"pretrained": pretrained, **({"peft": str(weights.resolve())} if weights else {})}


def _run(command: list[str], task: Path, folder: Path) -> None:
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_DATASETS_CACHE": str(folder / "cache")}
    inherited = system_variables(*("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "HF_HOME", "HF_HUB_CACHE"))
    # Modules of the task's folder must not stand in for installed ones of the same name.
    environment = {**inherited, **offline, "PYTHONSAFEPATH": "1", "PYTHONUTF8": "1"}
    process = subprocess.run(
        command,
        cwd=task.parent,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if process.returncode:
        # the last line of the last error, else the last line
        lines = [line.strip() for line in process.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if _ERROR.match(line)]
        cause = next(iter((*errors[-1:], *lines[-1:])), "")[:500] or f"exit code {process.returncode}"
        raise TrainingFailed(f"lm-eval failed on {task.name}: {cause}")


ACCURACIES: Final = ("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match")
"""The metrics of lm-eval that are a share of rows."""


@dataclass(frozen=True, slots=True)
class ModelScore:
    """One model on one task."""

    task: str
    metric: str
    value: float
    """0 to 1."""
    stderr: float | None
    """None where lm-eval gives none."""
    rows: Mapping[str, float]
    """The metric's value on each row, by the number of the row."""


@dataclass(frozen=True, slots=True)
class TaskScores:
    """The new version and the one in use on the same rows."""

    name: str
    metric: str
    rows: int
    new: float
    new_stderr: float | None
    current: float
    """The version in use, or the base model where none is."""
    current_stderr: float | None
    difference: Interval | None
    """New less current, from the rows in pairs; None with fewer than two."""


def compare(new: ModelScore, current: ModelScore) -> TaskScores:
    """Raises TrainingFailed unless both are on the same rows."""
    if (new.metric, new.rows.keys()) != (current.metric, current.rows.keys()):
        raise TrainingFailed(
            f"lm-eval measured the two models on different rows of {new.task}: the task is not repeatable"
        )
    changes = {row: [value - current.rows[row]] for row, value in new.rows.items()}
    return TaskScores(
        new.task, new.metric, len(changes), new.value, new.stderr, current.value, current.stderr, mean_interval(changes)
    )


def read(folder: Path) -> ModelScore:
    """From the two files that ``--log_samples`` leaves: ``results_*.json`` and ``samples_*.jsonl``.

    Raises TrainingFailed where they are not there, or have no accuracy."""
    try:
        results, samples = _only(folder, "results_*.json"), _only(folder, "samples_*.jsonl")
        [(task, metrics)] = json.loads(results.read_text(encoding="utf-8"))["results"].items()
        # the first accuracy, and the filter of answers that it is of: keys are ``acc,none``
        known = ((metric, of_filter) for metric, _, of_filter in (key.partition(",") for key in metrics))
        metric, of_filter = next((pair for pair in known if pair[0] in ACCURACIES), ("", ""))
        if not metric:
            listed = ", ".join(ACCURACIES)
            raise TrainingFailed(f"lm-eval: task {task} has no accuracy; its metric_list needs one of {listed}")
        rows = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
        values = {str(row["doc_id"]): float(row[metric]) for row in rows if row["filter"] == of_filter}
        stderr = metrics.get(f"{metric}_stderr,{of_filter}")
        value = float(metrics[f"{metric},{of_filter}"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrainingFailed(f"lm-eval left no results that can be read: {error or type(error).__name__}") from None
    return ModelScore(task, metric, value, stderr if isinstance(stderr, float) else None, values)


def _only(folder: Path, pattern: str) -> Path:
    files = list(folder.glob(pattern))
    if len(files) != 1:
        raise ValueError(f"{len(files)} files are called {pattern}, and 1 is expected")
    return files[0]


def in_words(task: Mapping[str, Any]) -> str:
    """``task``: a TaskScores as a mapping."""
    errors = {name: task[f"{name}_stderr"] for name in ("new", "current")}
    new, current = (
        f"{task[name]:.1%}" + ("" if error is None else f" (standard error {error:.1%})")
        for name, error in errors.items()
    )
    return f"task {task['name']}: {task['metric']} {new}, {current} in use, {task['rows']} rows"
