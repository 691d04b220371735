"""The JSON schema that an agent's answers keep to: given by hand, or learned from those that people accepted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rl.collect.feedback.closed_answers import newest_accepted
from rl.config.schemas import BadSchema, Schemas
from rl.data_formatter.answer_kinds import whole_object
from rl.data_formatter.answer_schema import FEWEST, MOST_NEW, comes_to_an_end, in_order, learn_schema
from rl.models import Agent


@dataclass(frozen=True, slots=True)
class StructuredAnswers:
    schema: Mapping[str, Any]
    reason: str
    """Why it is this one, for people."""

    @property
    def as_json(self) -> str:
        return json.dumps(self.schema, indent=2, ensure_ascii=False)

    @property
    def ends(self) -> bool:
        """Whether an answer that keeps to it comes to an end by itself."""
        return comes_to_an_end(self.schema)


def read_structured_answers(agent: Agent) -> StructuredAnswers | None:
    """``agent``: with its settings of answers. None where too few were accepted, or one in twenty is something else: whoever
    keeps to a schema says nothing else any more. Two queries, none for a schema by hand."""
    if agent.answer_kind in (Agent.AnswerKind.FREE, Agent.AnswerKind.CLOSED):
        return None
    if agent.answer_schema:
        return StructuredAnswers(in_order(agent.answer_schema), "as the agent's settings say")
    answers = [row.answer for row in newest_accepted(agent) if row.is_trusted]
    objects = [value for answer in answers if (value := whole_object(answer))]
    if len(answers) < FEWEST or len(objects) < (1 - MOST_NEW) * len(answers):
        return None
    schema = learn_schema(objects)
    if "properties" not in schema or not _is_bounded(schema):
        return None
    return StructuredAnswers(schema, f"learned from {len(objects)} accepted answers")


def _is_bounded(schema: Mapping[str, Any]) -> bool:
    try:
        Schemas().check(schema, "learned")
    except BadSchema:
        return False
    return True
