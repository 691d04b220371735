"""A look as one document: numbers for programs, and the same as texts for the page and the command."""

from dataclasses import asdict
from typing import Any

from rl.base.measurements import Interval
from rl.models import Experiment
from rl.serving.experiments import wording
from rl.serving.experiments.groups import GroupLook
from rl.serving.experiments.looks import ArmLook, ExperimentLook
from rl.serving.experiments.metrics import Effort, efforts
from rl.serving.experiments.sample_ratio import MISMATCH

NOTHING = "–"
HELD = "Better on the whole, and worse for some"
_ANSWERS = {
    Experiment.Verdict.PROMOTE: "A challenger is better",
    Experiment.Verdict.ROLL_BACK: "The control stays",
    Experiment.Verdict.NO_DIFFERENCE: "No difference that matters",
    Experiment.Verdict.STOPPED: "Stopped by a person",
}


def document(look: ExperimentLook) -> dict[str, Any]:
    experiment = look.experiment
    control = look.control.arm.name if look.control else "the control"
    names = [arm_look.arm.name for arm_look in look.challengers]
    settings = ("name", "state", *Experiment.QUESTION, "automatic", "started_at", "stopped_at")
    ratio, takes = look.sample_ratio, efforts(experiment)
    doubt = MISMATCH if look.is_mismatched else HELD if look.decision.is_held else ""
    return {
        "id": experiment.pk,
        "agent": experiment.agent.name,
        **{name: getattr(experiment, name) for name in settings},
        "question": wording.question(experiment.metric, control, names, experiment.minimum_effect),
        "counted": wording.observation_name(experiment.metric),
        "verdict": experiment.verdict or look.decision.verdict,
        "answer": doubt or answer(experiment, look.decision.verdict),
        "is_held": look.decision.is_held,
        "reason": _reason(look),
        "sample_ratio": {"p_value": ratio.p_value, "is_mismatched": ratio.is_mismatched} if ratio else None,
        "progress": round(look.progress, 4),
        "predicted": max((arm_look.predicted or 0 for arm_look in look.challengers), default=0) or None,
        "arms": [
            _arm(experiment, arm_look, look.users.get(arm_look.arm.pk, 0), takes.get(arm_look.arm.pk))
            for arm_look in look.arms
        ],
        "groups": [_group(experiment.metric, row) for row in look.groups],
    }


def answer(experiment: Experiment, verdict: str = "") -> str:
    """The verdict in words; ``verdict``: of a look at one that is running."""
    if experiment.state == Experiment.State.DRAFT:
        return "A draft"
    if not (experiment.verdict or verdict):
        return "No answer yet"
    return _ANSWERS[Experiment.Verdict(experiment.verdict or verdict)]


def _reason(look: ExperimentLook) -> str:
    """What is known of the split is told of an experiment that has ended too, even if nobody knew then."""
    if look.experiment.state != Experiment.State.STOPPED:
        return look.decision.reason
    ended = look.experiment.reason
    if look.sample_ratio is None or not look.is_mismatched or MISMATCH in ended:
        return ended
    return f"{look.sample_ratio.text} {ended}".strip()


def history(look: ExperimentLook) -> list[dict[str, Any]]:
    """For each challenger, lists of equal length, as charts take them."""
    return [
        {
            "arm": arm_look.arm.pk,
            "observations": [point.observations for point in arm_look.history],
            "value": [point.difference.value for point in arm_look.history],
            "low": [point.difference.low for point in arm_look.history],
            "high": [point.difference.high for point in arm_look.history],
        }
        for arm_look in look.challengers
    ]


def _arm(experiment: Experiment, arm_look: ArmLook, users: int, effort: Effort | None) -> dict[str, Any]:
    reading = arm_look.reading
    return {
        "id": arm_look.arm.pk,
        "version": arm_look.arm.name,
        "is_control": arm_look.arm.is_control,
        "is_stopped": arm_look.arm.is_stopped,
        "share": round(arm_look.share, 6),
        "users": users,
        "samples": arm_look.samples,
        "mean": _numbers(arm_look.mean),
        "difference": _numbers(reading.difference if reading else None),
        "p_value": reading.p_value if reading else None,
        "guard": _numbers(arm_look.guard.difference if arm_look.guard else None),
        "requests": arm_look.arm.requests,
        "failures": arm_look.arm.failures,
        "effort": effort._asdict() if effort else None,
        "texts": _texts(experiment, arm_look, users) | {"effort": effort_text(effort) if effort else NOTHING},
    }


def _group(metric: str, row: GroupLook) -> dict[str, Any]:
    difference = row.reading.difference
    shown = {"group": str(row.group), "version": row.version, "samples": row.reading.samples, "worse": row.worse}
    return {**shown, "difference": _numbers(difference), "text": _difference_text(metric, difference)}


def _texts(experiment: Experiment, arm_look: ArmLook, users: int) -> dict[str, str]:
    arm, reading, mean, metric = arm_look.arm, arm_look.reading, arm_look.mean, experiment.metric
    return {
        "share": "stopped" if arm.is_stopped else f"{arm_look.share * 100:.3g} %",
        "users": f"{users:,}",
        "samples": f"{arm_look.samples:,}",
        "mean": f"{wording.value_text(metric, mean.value)}\n({wording.value_interval(metric, mean)})"
        if mean
        else NOTHING,
        "difference": "control"
        if arm.is_control
        else _difference_text(metric, reading.difference if reading else None),
        "p": NOTHING if reading is None else "below 0.001" if reading.p_value < 0.001 else f"{reading.p_value:.3f}",
        "guard": _difference_text(experiment.guard_metric, arm_look.guard.difference if arm_look.guard else None),
        "requests": f"{arm.requests:,}",
        "failures": f"{arm.failures:,}",
    }


def effort_text(effort: Effort) -> str:
    seconds = NOTHING if effort.seconds is None else f"{effort.seconds:.2g} s"
    counted = effort.tokens_in is not None and effort.tokens_out is not None
    return f"{seconds}\n({effort.tokens_in:.0f} + {effort.tokens_out:.0f} tokens)" if counted else seconds


def _difference_text(metric: str, difference: Interval | None) -> str:
    if difference is None:
        return NOTHING
    return f"{wording.difference_text(metric, difference.value)}\n({wording.difference_interval(metric, difference)})"


def _numbers(interval: Interval | None) -> dict[str, float] | None:
    return asdict(interval) if interval else None
