"""Graders that ask a model on a server that the operator registered (JUDGES_FILE): for a score, or for a label."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from rl.base.errors import BadFile, JudgeFailed, UsageError
from rl.evaluation.judges.asking import Reply, ask, connect, without_thoughts
from rl.evaluation.judges.servers import find_server
from rl.from_systems.openai_tuning.graders.failures import GradingFailed
from rl.from_systems.openai_tuning.graders.templates import Variables, fill

_SCORE: Final = 'End your reply with a JSON object {{"result": NUMBER}}, where NUMBER is your score from {:g} to {:g}.'
_LABEL: Final = 'End your reply with a JSON object {{"result": LABEL}}, where LABEL is one of these: {}.'
_RESULT = re.compile(r'"result"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)')
_PARAMETERS: Final = {"max_completions_tokens": "max_tokens"}
"""OpenAI's name for a grader's parameter to that of chat completions, where it is another."""


def score(grader: Mapping[str, Any], variables: Variables) -> tuple[float, Reply]:
    low, high = grader["range"]
    reply = _ask(grader, variables, _SCORE.format(low, high))
    try:
        value = float(_result(reply))
    except ValueError:
        raise GradingFailed("model_grader_parse_error") from None
    if not low <= value <= high:
        raise GradingFailed("model_grader_parse_error")
    return value, reply


def label(grader: Mapping[str, Any], variables: Variables) -> tuple[float, Reply]:
    """The reward is 1 for a label that passes, else 0."""
    reply = _ask(grader, variables, _LABEL.format(json.dumps(grader["labels"], ensure_ascii=False)))
    chosen = _result(reply)
    if chosen not in grader["labels"]:
        raise GradingFailed("model_grader_parse_error")
    return float(chosen in grader["passing_labels"]), reply


def _ask(grader: Mapping[str, Any], variables: Variables, instruction: str) -> Reply:
    """The instruction stands in the first message: many models know a system message only there."""
    messages = [{"role": _role(sent["role"]), "content": fill(sent["content"], variables)} for sent in grader["input"]]
    if messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": instruction})
    else:
        messages[0]["content"] += f"\n\n{instruction}"
    parameters = {_PARAMETERS.get(name, name): value for name, value in grader.get("sampling_params", {}).items()}
    try:
        server = find_server(grader["model"])
        with connect(server) as client:
            reply = ask(client, server, messages, **parameters)
    except (JudgeFailed, UsageError, BadFile) as error:
        raise GradingFailed("model_grader_server_error", str(error)) from None
    if reply.refusal:
        raise GradingFailed("model_grader_refusal_error")
    return reply


def _role(name: str) -> str:
    return "system" if name == "developer" else name


def _result(reply: Reply) -> str:
    """The last result that the reply names, or else all that it says."""
    text = without_thoughts(reply.text)
    results = _RESULT.findall(text)
    if not results:
        return text.strip()
    try:
        return str(json.loads(results[-1]))
    except ValueError:
        raise GradingFailed("model_grader_parse_error") from None
