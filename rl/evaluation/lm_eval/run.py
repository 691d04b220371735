"""Two models on a task of lm-evaluation-harness, which is a package of its own: it runs as a child, and offline."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from rl.base.errors import TrainingFailed, UsageError
from rl.base.foreign_programs import system_variables
from rl.base.records import Report
from rl.evaluation.contest import Contest
from rl.evaluation.lm_eval import results as lm_eval_results
from rl.evaluation.lm_eval.results import ModelScore, TaskScores
from rl.lm.model_path import check_model_path, check_weights, is_adapter, is_reward_model

PACKAGE: Final = "lm_eval==0.4.13"
_OF_MODELS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "HF_HOME", "HF_HUB_CACHE")
"""Variables that loading a model needs."""
_ERROR = re.compile(r"[\w.]*(Error|Exception|Interrupt)\b")


def measure(contest: Contest, task: Path, report: Report) -> TaskScores:
    """The new version and the one in use, or its base model, one after the other.

    Raises UsageError where lm-eval is not installed or there is no answer to measure, and TrainingFailed with the last
    error of lm-eval when it fails.
    """
    if is_reward_model(contest.weights):
        raise UsageError("--lm-eval measures answers, and a reward model gives none")
    python = interpreter()
    base, weights = contest.current or (contest.base_model, None)
    new = _measure(python, task, contest.base_model, contest.weights, "the new version", report)
    current = _measure(python, task, base, weights, "the version in use" if weights else "the base model", report)
    return lm_eval_results.compare(new, current)


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
        config.write_text(json.dumps(_config(task, _model(base, weights), folder)), encoding="utf-8")
        _run([python, "-m", "lm_eval", "run", "--config", str(config)], task, folder)
        return lm_eval_results.read(folder / "out")


def _config(task: Path, model: dict[str, str], folder: Path) -> dict[str, Any]:
    """The file for the harness's ``--config``. Its device is the first GPU, and the CPU where there is none."""
    return {
        "model": "hf",
        "model_args": model,
        "tasks": [str(task)],
        "include_path": str(task.parent),
        "batch_size": 4,
        "output_path": str(folder / "out/results.json"),
        "log_samples": True,
    }


def _model(base: str, weights: Path | None) -> dict[str, str]:
    """Absolute paths: the child works in the folder of the task."""
    if weights and not is_adapter(weights):
        return {"pretrained": str(check_weights(weights, TrainingFailed).resolve())}
    folder = Path(check_model_path(base))
    pretrained = str(folder.resolve()) if folder.is_dir() else base
    return {"pretrained": pretrained, **({"peft": str(weights.resolve())} if weights else {})}


def _run(command: list[str], task: Path, folder: Path) -> None:
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_DATASETS_CACHE": str(folder / "cache")}
    inherited = system_variables(*_OF_MODELS)
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
        raise TrainingFailed(
            f"lm-eval failed on {task.name}: {_cause(process.stderr) or f'exit code {process.returncode}'}"
        )


def _cause(stderr: str) -> str:
    """The last line of the last error, else the last line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    return next(iter((*errors[-1:], *lines[-1:])), "")[:500]
