"""What a training earned, as N3 reports it: the policy's return at each step, on a scale of -1 to 1, less its penalty for
moving away from the base model; and beside it the scores that people gave.

N3 calls the first ``rewardMean`` and ``rewardStd``: they rise where training helps, while the scores that people gave do not
change by training, so those are ``scoreMean`` and ``scoreStd`` here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev
from typing import Any

from rl.models import MetricPoint, ModelVersion, TrainingRun

_NAMES = ("reward", "kl", "kl_coef", "loss")


@dataclass(frozen=True, slots=True)
class Histories:
    """One number for each step that knows it."""

    reward: list[float] = field(default_factory=list)
    """Mean return of the step's answers, on -1 to 1 where the divergence costs nothing."""
    kl: list[float] = field(default_factory=list)
    """Nats an answer."""
    loss: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float | None:
        """None where the method generates nothing, so that nothing was rewarded."""
        return fmean(self.reward) if self.reward else None

    @property
    def std(self) -> float | None:
        """Standard deviation of the population; None as ``mean``."""
        return pstdev(self.reward) if self.reward else None


def histories(runs: Iterable[int]) -> dict[int, Histories]:
    """The histories of these runs, by their number, from the metrics that were stored while they trained: one query."""
    by_run: defaultdict[int, Histories] = defaultdict(Histories)
    columns = [f"values__{name}" for name in _NAMES]
    points = MetricPoint.objects.filter(run__in=list(runs)).order_by("run", "step")
    for run, *numbers in points.values_list("run_id", *columns):
        _add_step(by_run[run], dict(zip(_NAMES, numbers, strict=True)))
    return dict(by_run)


def _add_step(run: Histories, step: Mapping[str, float | None]) -> None:
    if (reward := step["reward"]) is not None:
        run.reward.append(2 * (reward - (step["kl_coef"] or 0) * (step["kl"] or 0)) - 1)
    for history, name in ((run.kl, "kl"), (run.loss, "loss")):
        if (number := step[name]) is not None:
            history.append(number)


def metrics(versions: Sequence[ModelVersion]) -> dict[int, dict[str, Any]]:
    """Version to N3's figures of its training."""
    runs = TrainingRun.objects.select_related("training_set").filter(version__in=[version.pk for version in versions])
    by_version = {run.version_id: run for run in runs}
    earned = histories(run.pk for run in by_version.values())
    return {version.pk: _figures(version, by_version.get(version.pk), earned) for version in versions}


def _figures(version: ModelVersion, run: TrainingRun | None, earned: Mapping[int, Histories]) -> dict[str, Any]:
    history = earned.get(run.pk, Histories()) if run else Histories()
    scores = (run.training_set.stats if run and run.training_set else {}).get("scores", {})
    return {
        "feedbackCount": version.feedback_count,
        "rewardMean": history.mean,
        "rewardStd": history.std,
        "scoreMean": scores.get("mean"),
        "scoreStd": scores.get("std"),
    }


UNKNOWN: Mapping[str, None] = dict.fromkeys(("feedbackCount", "rewardMean", "rewardStd", "scoreMean", "scoreStd"))
"""The figures of a training that has made no version."""
