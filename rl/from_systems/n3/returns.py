"""What policies earn, as N3 reports it, and beside it the scores that people gave.

N3 calls the first ``rewardMean`` and ``rewardStd``: of a version's fresh answers by the newest reward model, which compares
versions of all methods; where there is none, of the steps of a training that was rewarded. They rise where training helps,
while the scores that people gave do not change by training, so those are ``scoreMean`` and ``scoreStd`` here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rl.config import find_method
from rl.evaluation.fresh_rewards import FIGURE
from rl.from_systems.n3.result_file import NAMES, Histories
from rl.models import Evaluation, MetricPoint, ModelVersion, TrainingRun


def histories(runs: Iterable[int]) -> dict[int, Histories]:
    """The histories of these runs, by their number, from the metrics that were stored while they trained: one query."""
    by_run: defaultdict[int, Histories] = defaultdict(Histories)
    columns = [f"values__{name}" for name in NAMES]
    points = MetricPoint.objects.filter(run__in=list(runs)).order_by("run", "step")
    for run, *numbers in points.values_list("run_id", *columns):
        by_run[run].add(dict(zip(NAMES, numbers, strict=True)))
    return dict(by_run)


def metrics(versions: Sequence[ModelVersion]) -> dict[int, dict[str, Any]]:
    """Version to N3's figures of its training. What a reward model gives answers is not what a policy earned."""
    by_version = _runs(version__in=[version.pk for version in versions])
    runs = by_version.values()
    earned = histories(run.pk for run in runs if not find_method(run.method).scores)
    names = {(run.agent_id, _judge_of(run)) for run in runs if _judge_of(run)}
    which = {"version__agent__in": [agent for agent, _ in names], "version__name__in": [name for _, name in names]}
    made = _runs(**which).values() if names else ()
    judges = {(run.agent_id, run.version.name): run for run in made if run.version}
    fresh, figures = fresh_rewards(by_version), {}
    for version in versions:
        run = by_version.get(version.pk)
        history = earned.get(run.pk, Histories()) if run else Histories()
        scores = _scores(run) or _scores(judges.get((run.agent_id, _judge_of(run)))) if run else {}
        figures[version.pk] = {
            "feedbackCount": version.feedback_count,
            "rewardMean": history.mean,
            "rewardStd": history.std,
            "rewardModel": None,
            "scoreMean": scores.get("mean"),
            "scoreStd": scores.get("std"),
            **fresh.get(version.pk, {}),
        }
    return figures


def fresh_rewards(versions: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Version to what its fresh answers earned, on N3's scale of -1 to 1, by the newest evaluation that says it: one
    query."""
    known = Evaluation.objects.filter(version__in=list(versions), report__has_key=FIGURE).order_by("created_at")
    return {
        version: {
            "rewardMean": 2 * figure["mean"] - 1,
            "rewardStd": 2 * figure["std"],
            "rewardModel": figure["reward_model"],
        }
        for version, figure in known.values_list("version_id", f"report__{FIGURE}")
    }


def _runs(**which: Any) -> dict[int, TrainingRun]:
    """By the version that each made."""
    runs = TrainingRun.objects.select_related("training_set", "version").filter(**which)
    return {run.version_id: run for run in runs if run.version_id is not None}


def _judge_of(run: TrainingRun) -> str:
    return str(run.options.get("origins", {}).get("reward_model") or "")


def _scores(run: TrainingRun | None) -> dict[str, float]:
    """Those that it learned from; a policy has none, and its reward model has."""
    return dict((run.training_set.stats if run and run.training_set else {}).get("scores", {}))


UNKNOWN: Mapping[str, None] = dict.fromkeys(
    ("feedbackCount", "rewardMean", "rewardStd", "rewardModel", "scoreMean", "scoreStd")
)
"""The figures of a training that has made no version."""
