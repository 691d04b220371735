"""What can be wrong with an answer whatever it says: kinds of errors, for guard rails and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rl.base.records import GeneratedAnswer
from rl.data_formatter.degeneration import degenerations
from rl.data_formatter.fresh import fresh_trace
from rl.evaluation.guards.refusals import is_refusal
from rl.rewards.format_compliance import FormatComplianceReward

KINDS = {
    "empty": "nothing but white space",
    "too_long": "did not end within the tokens it was given",
    "repeats": "says the same again and again",
    "unending": "did not end, and repeats or has no end of a sentence in sight",
    "echo": "mostly the prompt again",
    "other_language": "in a language that neither the prompt nor another answer has",
    "refusal": "opens as a refusal",
    "parse": "nothing in the agent's format can be read in it",
    "format": "in the agent's format by less than half",
    "tool": "a tool call in it cannot be read",
}
DEGENERATE = ("empty", "repeats", "unending", "echo", "other_language")
NOT_READABLE = ("parse", "format", "tool")
HALF = 0.5


def kinds_of(
    answer: GeneratedAnswer, most_tokens: int, row: Mapping[str, Any], answer_format: str, others: Sequence[str] = ()
) -> list[str]:
    """Those of KINDS. ``most_tokens``: that the answer was given; ``row``: its prompt, with the ``details`` that may ask for
    another format than the agent's, which may be none, and with ``chosen`` where one is stored; ``others``: what other
    models answered."""
    ended = answer.tokens_out < most_tokens
    kinds = [] if ended else ["too_long"]
    if not answer.text.strip():
        return [*kinds, "empty"]
    prompt, stored = ([message["content"] for message in row.get(part, ())] for part in ("prompt", "chosen"))
    kinds += degenerations(answer.text, ended, prompt, stored, others)
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
