"""A grader as the reward of the answers that a run generates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rl.base.errors import RewardFailed
from rl.base.records import AnswerScore, TraceRecord
from rl.dataset_builder.read.prompt_file import ITEM
from rl.from_systems.openai_tuning.graders.failures import DETAILS
from rl.from_systems.openai_tuning.graders.running import run
from rl.from_systems.openai_tuning.graders.specification import validate

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
