"""A look as one document: numbers for programs, and the same as texts for the page and the command."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rl.base.records import Interval
from rl.models import Experiment
from rl.serving.experiments import metrics, wording
from rl.serving.experiments.looks import ArmLook, Look

NOTHING = "–"
_ANSWERS = {
    Experiment.Verdict.PROMOTE: "A challenger is better",
    Experiment.Verdict.ROLL_BACK: "The control stays",
    Experiment.Verdict.NO_DIFFERENCE: "No difference that matters",
    Experiment.Verdict.STOPPED: "Stopped by a person",
}


def document(found: Look) -> dict[str, Any]:
    """One more query than the look: who was given which arm."""
    experiment = found.experiment
    users = metrics.users(experiment)
    control = found.control.arm.version_name if found.control else "the control"
    names = [one.arm.version_name for one in found.challengers]
    settings = (
        "name",
        "state",
        "metric",
        "minimum_effect",
        "confidence",
        "min_samples",
        "max_samples",
        "guard_metric",
        "guard_margin",
        "ramp",
        "automatic",
        "started_at",
        "stopped_at",
    )
    return {
        "id": experiment.pk,
        "agent": experiment.agent.name,
        **{name: getattr(experiment, name) for name in settings},
        "question": wording.question(experiment.metric, control, names, experiment.minimum_effect),
        "counted": wording.counted(experiment.metric),
        "verdict": experiment.verdict or found.decision.verdict,
        "answer": answer(experiment, found.decision.verdict),
        "reason": experiment.reason if experiment.state == experiment.State.STOPPED else found.decision.reason,
        "progress": round(found.progress, 4),
        "predicted": max((one.predicted or 0 for one in found.challengers), default=0) or None,
        "arms": [_arm(experiment, one, users.get(one.arm.pk, 0)) for one in found.arms],
    }


def answer(experiment: Experiment, verdict: str = "") -> str:
    """The verdict in words; ``verdict``: of a look at one that is running."""
    if experiment.state == Experiment.State.DRAFT:
        return "A draft"
    if not (experiment.verdict or verdict):
        return "No answer yet"
    return _ANSWERS[Experiment.Verdict(experiment.verdict or verdict)]


def history(found: Look) -> list[dict[str, Any]]:
    """Of each challenger: lists of one length, as charts take them."""
    return [
        {
            "arm": one.arm.pk,
            "observations": [point.observations for point in one.history],
            "value": [point.difference.value for point in one.history],
            "low": [point.difference.low for point in one.history],
            "high": [point.difference.high for point in one.history],
        }
        for one in found.challengers
    ]


def _arm(experiment: Experiment, one: ArmLook, users: int) -> dict[str, Any]:
    reading = one.reading
    return {
        "id": one.arm.pk,
        "version": one.arm.version_name,
        "is_control": one.arm.is_control,
        "is_stopped": one.arm.is_stopped,
        "share": round(one.share, 6),
        "users": users,
        "samples": one.samples,
        "mean": _numbers(one.mean),
        "difference": _numbers(reading.difference if reading else None),
        "p_value": reading.p_value if reading else None,
        "guard": _numbers(one.guard.difference if one.guard else None),
        "requests": one.arm.requests,
        "failures": one.arm.failures,
        "texts": _texts(experiment, one, users),
    }


def _texts(experiment: Experiment, one: ArmLook, users: int) -> dict[str, str]:
    arm, reading = one.arm, one.reading
    return {
        "share": "stopped" if arm.is_stopped else f"{one.share * 100:.3g} %",
        "users": f"{users:,}",
        "samples": f"{one.samples:,}",
        "mean": _mean_text(experiment.metric, one.mean),
        "difference": "control"
        if arm.is_control
        else _difference_text(experiment.metric, reading.difference if reading else None),
        "p": NOTHING if reading is None else "below 0.001" if reading.p_value < 0.001 else f"{reading.p_value:.3f}",
        "guard": _difference_text(experiment.guard_metric, one.guard.difference if one.guard else None),
        "requests": f"{arm.requests:,}",
        "failures": f"{arm.failures:,}",
    }


def _mean_text(metric: str, mean: Interval | None) -> str:
    if mean is None:
        return NOTHING
    return f"{wording.value_text(metric, mean.value)}\n({wording.value_interval(metric, mean)})"


def _difference_text(metric: str, found: Interval | None) -> str:
    if found is None:
        return NOTHING
    return f"{wording.difference_text(metric, found.value)}\n({wording.difference_interval(metric, found)})"


def _numbers(found: Interval | None) -> dict[str, float] | None:
    return asdict(found) if found else None
