"""A score of Langfuse's API as something said of an answer, which may come before the answer."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from django.utils import timezone

from rl.base.errors import BadFile
from rl.collect.importers.fields import NotForUs, Refused, text
from rl.collect.importers.langfuse_score import feedback, scales_of
from rl.collect.otlp.mapping import LooseSpan, evaluation_to_json

_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_SPAN_ID: Final = re.compile(r"[0-9a-f]{16}")


def read_score(score: Any, agent: str) -> LooseSpan:
    """Says it of the observation that it names, else of the last answer of its trace. Raises Refused."""
    if not isinstance(score, dict):
        raise Refused("a score must be an object")
    trace_id, span_id = text(score, "traceId"), text(score, "observationId")
    if not _TRACE_ID.fullmatch(trace_id) or not (_SPAN_ID.fullmatch(span_id) or not span_id):
        raise Refused(
            "traceId must have 32 hexadecimal digits, and observationId 16 or none: other scores are of no answer"
        )
    try:
        opinion = feedback(score, _scales(score))
    except NotForUs as error:
        raise Refused(str(error)) from None
    evaluation = evaluation_to_json("", replace(opinion, rated_at=opinion.rated_at or timezone.now()))
    number = hashlib.sha256(json.dumps(score, sort_keys=True).encode()).hexdigest()[:16]
    return LooseSpan(
        agent=agent, trace_id=trace_id, span_id=number, evaluations=[evaluation], judges=span_id, of_agent=True
    )


def _scales(score: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    try:
        return scales_of([score], Path(), {})
    except BadFile:
        raise Refused(
            f"the score {text(score, 'name')!r:.60} is 1: the best of 0 to 1, or the worst of 1 to 5? "
            "send it with the dataType BOOLEAN, or name it thumbs"
        ) from None
