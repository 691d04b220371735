"""What can be wrong with an answer whatever it says: kinds of errors, for guard rails and reports.

A refusal is known by how it opens, in English only: other languages are not recognised."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rl.base.records import GeneratedAnswer
from rl.data_formatter.degeneration import degenerations
from rl.data_formatter.fresh import fresh_trace
from rl.rewards.format_compliance import TOOL_CALL, FormatComplianceReward, share_of_readable_calls

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
    "no_call": "calls no tool, where the answer that people prefer does",
}
DEGENERATE = ("empty", "repeats", "unending", "echo", "other_language")
NOT_READABLE = ("parse", "format", "tool", "no_call")
HALF = 0.5
REGRETS = (
    *("sorry", "i'm sorry", "i am sorry", "i'm very sorry", "i am very sorry"),
    *("i apologize", "i apologise", "my apologies", "apologies", "unfortunately"),
)
"""May stand before a refusal; alone they are politeness."""
REFUSALS = (
    *("i can't", "i cannot", "i can not", "i won't", "i will not", "i'm unable to", "i am unable to"),
    *("i'm not able to", "i am not able to", "i'm not allowed to", "i am not allowed to", "i must decline"),
    *("i have to decline", "as an ai", "as a language model", "as a large language model"),
)
"""How refusals open. To recognise another, add its first words here, in lower case."""
_APOSTROPHES = str.maketrans("\u2019\u2018\u02bc", "'''")
_LOOKED_AT = 120
"""Characters: a refusal says so at once."""


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
    kinds += _format_errors(answer.text, row, answer_format)
    return kinds + [kind for kind in _call_errors(answer.text, row) if kind not in kinds]


def asks_for_format(row: Mapping[str, Any], answer_format: str) -> bool:
    return bool(answer_format or row["details"].get("format") or row.get("tools"))


def _call_errors(text: str, row: Mapping[str, Any]) -> list[str]:
    """Where tools are offered: of calls as ``<tool_call>`` elements."""
    if not row.get("tools"):
        return []
    if TOOL_CALL in text:
        return ["tool"] if share_of_readable_calls(text) < 1 else []
    return ["no_call"] if any(message.get("tool_calls") for message in row.get("chosen", ())) else []


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


def _any_of(openings: tuple[str, ...]) -> str:
    return "|".join(map(re.escape, sorted(openings, key=len, reverse=True)))


_OPENING = re.compile(rf"\W*(?:(?:{_any_of(REGRETS)})\b[\s,.;:!-]*)?(?:but\s+|that\s+)?(?:{_any_of(REFUSALS)})\b")


def is_refusal(answer: str) -> bool:
    """By its first words: ``I'm sorry, but I can't``, ``As an AI``."""
    return bool(_OPENING.match(answer[:_LOOKED_AT].translate(_APOSTROPHES).lower()))
