"""How a version is asked by the gateway, as fields of a chat completion for who asks its server past the gateway."""

import json
from collections.abc import Mapping
from typing import Any, Final

from rl.base.template_settings import template_settings
from rl.collect.feedback.kept_answers import ClosedAnswers, KeptAnswers, StructuredAnswers
from rl.models import ModelVersion

YOURS: Final = "{question}"
"""Stands where the question goes."""


def request_of(version: ModelVersion, kept: KeptAnswers | None) -> dict[str, Any]:
    """``kept``: what its answers are kept to. In the fields of llama.cpp's server, which alone takes a grammar."""
    agent, manner = version.agent, version.manner
    has_room = isinstance(kept, StructuredAnswers) and kept.ends
    rules = [{"role": "system", "content": agent.system_prompt}] if agent.system_prompt else []
    return {
        "messages": manner.tell([*rules, {"role": "user", "content": YOURS}]),
        **({} if has_room else {"max_tokens": agent.response_length}),
        "chat_template_kwargs": template_settings(manner.thinks and not kept),
        **_form(kept),
    }


def answers_of(kept: KeptAnswers | None) -> dict[str, Any]:
    if kept is None:
        return {}
    form = {"one_of": list(kept.values)} if isinstance(kept, ClosedAnswers) else {"schema": kept.schema}
    return {**form, "because": kept.reason}


def _form(kept: KeptAnswers | None) -> Mapping[str, Any]:
    if kept is None:
        return {}
    if isinstance(kept, ClosedAnswers):  # the gateway takes the likeliest, whatever the temperature
        choices = " | ".join(json.dumps(text, ensure_ascii=False) for text in kept.values)
        return {"temperature": 0, "grammar": f"root ::= {choices}"}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": kept.schema}}}
