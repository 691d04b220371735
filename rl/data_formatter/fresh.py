"""Answers that were just generated, as the rewards read them."""

from collections.abc import Mapping
from typing import Any

from rl.base.records import TraceRecord


def fresh_trace(
    row: Mapping[str, Any], response: str, tokens_in: int | None = None, tokens_out: int | None = None
) -> TraceRecord:
    """``row``: of the kind "prompts". Whose answer it is the scorer knows."""
    return TraceRecord(
        id="",
        agent="",
        prompt=tuple(row["prompt"]),
        response=response,
        prompt_key=row.get("prompt_key", ""),
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        details=row["details"],
    )
