"""What can be wrong with an answer whatever it says: kinds of errors, for guard rails and reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rl.base.records import GeneratedAnswer
from rl.data_formatter.fresh import fresh_trace
from rl.evaluation.guards.refusals import is_refusal
from rl.rewards.format_compliance import FormatComplianceReward

KINDS = {
    "empty": "nothing but white space",
    "too_long": "did not end within the tokens it was given",
    "refusal": "opens as a refusal",
    "parse": "nothing in the agent's format can be read in it",
    "format": "in the agent's format by less than half",
    "tool": "a tool call in it cannot be read",
}
NOT_READABLE = ("parse", "format", "tool")
HALF = 0.5


def kinds_of(answer: GeneratedAnswer, most_tokens: int, row: Mapping[str, Any], answer_format: str) -> list[str]:
    """Those of KINDS. ``most_tokens``: that the answer was given; ``row``: its prompt, with the ``details`` that may ask for
    another format than the agent's, which may be none."""
    kinds = ["too_long"] if answer.tokens_out >= most_tokens else []
    if not answer.text.strip():
        return [*kinds, "empty"]
    if is_refusal(answer.text):
        kinds.append("refusal")
    return kinds + _format_errors(answer.text, row, answer_format)


def asks_for_format(row: Mapping[str, Any], answer_format: str) -> bool:
    return bool(answer_format or row["details"].get("format"))


def _format_errors(text: str, row: Mapping[str, Any], answer_format: str) -> list[str]:
    """By ``format_compliance``, the reward."""
    compliance = FormatComplianceReward(answer_format).compute(fresh_trace(row, text))
    if compliance.value is None:
        return []
    if compliance.details["format"] == "tool_call":
        return ["tool"] if compliance.value < 1 else []
    if compliance.value >= HALF:
        return []
    return ["parse"] if compliance.value == 0 else ["format"]
