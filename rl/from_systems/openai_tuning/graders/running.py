"""Scores one answer by a grader that was validated, and rewards by it the answers that a run generates."""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rl.base.errors import RewardFailed, SandboxUnavailable
from rl.base.records import AnswerScore, TraceRecord
from rl.dataset_builder.read.prompt_file import ITEM
from rl.evaluation.judges.asking import Reply
from rl.from_systems.openai_tuning.graders import formula, models
from rl.from_systems.openai_tuning.graders.failures import DETAILS, FLAGS, MOST_DETAILS, GradingFailed
from rl.from_systems.openai_tuning.graders.similarity import METRICS
from rl.from_systems.openai_tuning.graders.specification import validate
from rl.from_systems.openai_tuning.graders.templates import Variables, fill, variables_of
from rl.sandbox import Limits, call

PYTHON_LIMITS: Final = Limits()
Grader = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Scored:
    reward: float
    reply: Reply | None = None
    failure: GradingFailed | None = None


def run(grader: Grader, item: Any, sample_text: str) -> dict[str, Any]:
    """What OpenAI's clients read as a GraderRunResponse. ``grader``: of ``validate``; ``item``: JSON. A grader that fails is
    flagged in ``metadata.errors``, and its reward is 0."""
    begin = time.monotonic()
    variables = variables_of(item, sample_text)
    parts: Mapping[str, Grader] = grader.get("graders", {})
    scored = {name: _attempt(part, variables) for name, part in parts.items()}
    whole = _combine(grader, scored) if parts else _attempt(grader, variables)
    every = [whole, *scored.values()]
    usage = _count_tokens([(part, scored[name]) for name, part in parts.items()] or [(grader, whole)])
    rewards = {name: part.reward for name, part in scored.items()}
    return {
        "reward": whole.reward,
        "sub_rewards": rewards,
        "metadata": {
            "name": grader["name"],
            "type": grader["type"],
            "errors": _errors([one_score.failure for one_score in every if one_score.failure]),
            "execution_time": time.monotonic() - begin,
            "scores": dict(rewards),
            "token_usage": sum(counts.get("total_tokens", 0) for counts in usage.values()) if usage else None,
            "sampled_model_name": grader.get("model"),
        },
        "model_grader_token_usage_per_model": usage,
    }


def _attempt(grader: Grader, variables: Variables) -> _Scored:
    try:
        reward, reply = _GRADERS[grader["type"]](grader, variables)
    except GradingFailed as failure:
        return _Scored(0.0, failure=failure)
    return _Scored(reward, reply)


def _combine(grader: Grader, scored: Mapping[str, _Scored]) -> _Scored:
    try:
        return _Scored(
            formula.compute(grader["calculate_output"], {name: part.reward for name, part in scored.items()})
        )
    except GradingFailed as failure:
        return _Scored(0.0, failure=failure)


def _check_string(grader: Grader, variables: Variables) -> tuple[float, None]:
    text, reference = fill(grader["input"], variables), fill(grader["reference"], variables)
    match grader["operation"]:
        case "eq":
            return float(text == reference), None
        case "ne":
            return float(text != reference), None
        case "like":
            return float(reference in text), None
    return float(reference.casefold() in text.casefold()), None


def _compare_texts(grader: Grader, variables: Variables) -> tuple[float, None]:
    texts = fill(grader["input"], variables), fill(grader["reference"], variables)
    return METRICS[grader["evaluation_metric"]](*texts), None


def _run_python(grader: Grader, variables: Variables) -> tuple[float, None]:
    try:
        answer = call(grader["source"], "grade", (variables["sample"], variables["item"]), PYTHON_LIMITS)
    except SandboxUnavailable as error:
        raise GradingFailed("python_grader_server_error", str(error)) from None
    reward = answer.value
    if answer.problem:
        raise GradingFailed(
            "python_grader_runtime_error", answer.result.stderr.strip()[-MOST_DETAILS:] or answer.problem
        )
    if type(reward) not in (int, float) or not abs(reward) <= sys.float_info.max:
        problem = f"grade must return a finite number, not {str(reward)[:100]}"
        raise GradingFailed("python_grader_runtime_error", problem)
    return float(reward), None


_GRADERS: Final[Mapping[str, Callable[[Grader, Variables], tuple[float, Reply | None]]]] = {
    "string_check": _check_string,
    "text_similarity": _compare_texts,
    "python": _run_python,
    "score_model": models.score,
    "label_model": models.label,
}


def _count_tokens(graded: list[tuple[Grader, _Scored]]) -> dict[str, dict[str, int]]:
    """By model."""
    usage: dict[str, dict[str, int]] = {}
    for grader, scored in graded:
        for name, count in (scored.reply.usage if scored.reply else {}).items():
            counts = usage.setdefault(grader["model"], {})
            counts[name] = counts.get(name, 0) + count
    return usage


def _errors(failures: list[GradingFailed]) -> dict[str, Any]:
    reasons = {failure.flag: str(failure) for failure in failures}
    errors: dict[str, Any] = {flag: flag in reasons for flag in FLAGS}
    return errors | {name: reasons.get(flag) for flag, name in DETAILS.items()}


OF_ANSWER: Final = ("sample_parse_error", "python_grader_runtime_error")
"""Failures that are the answer's own, and reward 0; the others say nothing about it."""
OF_MACHINE: Final = ("model_grader_server_error", "python_grader_server_error")
ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class GraderScorer:
    """Scores by the grader's JSON. A model's range becomes 0 to 1. Raises GraderInvalid when it is made; RewardFailed for a
    server or a sandbox that fails, and for a reward that is not from 0 to 1."""

    grader: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "grader", validate(self.grader))

    def __call__(self, trace: TraceRecord) -> AnswerScore:
        graded = run(self.grader, trace.details.get(ITEM, {}), trace.response)
        errors = graded["metadata"]["errors"]
        name = self.grader["name"]
        if broken := [flag for flag in OF_MACHINE if errors[flag]]:
            raise RewardFailed(name, f"{broken[0]}: {errors[DETAILS[broken[0]]]}")
        if any(raised is True and flag not in OF_ANSWER for flag, raised in errors.items()):
            return AnswerScore(None, graded["sub_rewards"])
        low, high = self.grader.get("range", (0.0, 1.0))
        value = (graded["reward"] - low) / (high - low)
        if not -ROUNDING <= value <= 1 + ROUNDING:
            raise RewardFailed(name, f"gave {value:g}; a reward is a number from 0 to 1: let the grader scale it")
        return AnswerScore(min(1.0, max(0.0, value)), graded["sub_rewards"] or {name: value})
