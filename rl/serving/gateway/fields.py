"""Which fields of a request reach the server of a version, each with its bound; ``docs/gateway.md`` has the same list.

What is unknown is left out, and the answer's headers name it: clients send fields of other servers without a thought. What
would make another answer of it when left out, or holds a server up, is refused.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from rl.collect.limits import MAX_MESSAGES
from rl.config.schemas import BadSchema, Schemas
from rl.models.serving import MOST_ANSWERS
from rl.serving.gateway.refusals import Refusal

MOST_STOPS, LONGEST_STOP = 16, 500
MOST_BIASES: Final = 300
MOST_TOOLS: Final = 128
MOST_PAIRS, LONGEST_TEXT = 64, 512
Check = Callable[[Any, str, Schemas], Any]
"""Gets the value and the name of a field; gives what is passed on. Raises Refusal or BadSchema."""


def _refuse(name: str, problem: str) -> Refusal:
    return Refusal(400, f"{name} {problem}", param=name, code="invalid_value")


def _number(low: float, high: float) -> Check:
    def check(value: Any, name: str, _: Schemas) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise _refuse(name, f"must be a number from {low:g} to {high:g}")
        return value

    return check


def _whole(low: int, high: int | None = None) -> Check:
    def check(value: Any, name: str, _: Schemas) -> Any:
        if isinstance(value, bool) or not isinstance(value, int) or value < low or (high is not None and value > high):
            until = "" if high is None else f" to {high}"
            raise _refuse(name, f"must be a whole number from {low}{until or ' on'}")
        return value

    return check


def _flag(value: Any, name: str, _: Schemas) -> Any:
    if not isinstance(value, bool):
        raise _refuse(name, "must be true or false")
    return value


def _text(value: Any, name: str, _: Schemas) -> Any:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise _refuse(name, f"must be text of at most {LONGEST_TEXT} characters")
    return value


def _pairs(value: Any, name: str, _: Schemas) -> Any:
    """Texts, numbers and truth values by name."""
    if not isinstance(value, dict) or len(value) > MOST_PAIRS or any(map(_is_long, [*value, *value.values()])):
        raise _refuse(
            name,
            f"must be an object of at most {MOST_PAIRS} texts, numbers and truth values, each at most {LONGEST_TEXT} long",
        )
    return value


def _is_long(value: object) -> bool:
    return isinstance(value, list | dict) or (isinstance(value, str) and len(value) > LONGEST_TEXT)


def _messages(value: Any, name: str, _: Schemas) -> Any:
    if not isinstance(value, list) or not value:
        raise Refusal(400, "messages must be a list with at least one message", param=name)
    if len(value) > MAX_MESSAGES:
        raise _refuse(name, f"must be at most {MAX_MESSAGES}")
    return value


def _stop(value: Any, name: str, _: Schemas) -> Any:
    words = [value] if isinstance(value, str) else value
    is_right = isinstance(words, list) and len(words) <= MOST_STOPS
    if not is_right or not all(isinstance(word, str) and 0 < len(word) <= LONGEST_STOP for word in words):
        raise _refuse(name, f"must be at most {MOST_STOPS} texts of 1 to {LONGEST_STOP} characters")
    return value


def _stream_options(value: Any, name: str, _: Schemas) -> Any:
    if not isinstance(value, dict):
        raise _refuse(name, "must be an object")
    return {"include_usage": value.get("include_usage") is True}


def _logit_bias(value: Any, name: str, schemas: Schemas) -> Any:
    if not isinstance(value, dict) or len(value) > MOST_BIASES:
        raise _refuse(name, f"must be an object with at most {MOST_BIASES} tokens")
    for token, bias in value.items():
        if not re.fullmatch(r"[0-9]{1,9}", token, re.ASCII):
            raise _refuse(name, f"has {token[:20]!r}, which is not the number of a token")
        _number(-100, 100)(bias, f"{name}.{token}", schemas)
    return value


def _tools(value: Any, name: str, schemas: Schemas) -> Any:
    if not isinstance(value, list) or len(value) > MOST_TOOLS:
        raise _refuse(name, f"must be a list of at most {MOST_TOOLS} tools")
    return [_tool(tool, f"{name}[{index}]", schemas) for index, tool in enumerate(value)]


def _tool(tool: Any, name: str, schemas: Schemas) -> Any:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict) or tool.get("type") != "function":
        raise _refuse(name, "must have the type 'function', and a function")
    if not isinstance(label := function.get("name"), str) or not 0 < len(label) <= 64:
        raise _refuse(f"{name}.function.name", "must be text of 1 to 64 characters")
    if not isinstance(function.get("description", ""), str):
        raise _refuse(f"{name}.function.description", "must be text")
    passed = {key: function[key] for key in ("name", "description", "strict") if key in function}
    if function.get("parameters") is not None:
        passed["parameters"] = schemas.check(function["parameters"], f"{name}.function.parameters")
    return {"type": "function", "function": passed}


def _tool_choice(value: Any, name: str, _: Schemas) -> Any:
    if value in ("none", "auto", "required"):
        return value
    function = value.get("function") if isinstance(value, dict) and value.get("type") == "function" else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise _refuse(name, "must be none, auto, required, or a function with its name")
    return {"type": "function", "function": {"name": function["name"]}}


def _response_format(value: Any, name: str, schemas: Schemas) -> Any:
    kind = value.get("type") if isinstance(value, dict) else None
    if kind in ("text", "json_object") and "schema" not in value:
        return {"type": kind}
    if kind == "json_object":  # llama.cpp's way to give a schema
        return {"type": kind, "schema": schemas.check(value["schema"], f"{name}.schema")}
    inner = value.get("json_schema") if kind == "json_schema" else None
    if not isinstance(inner, dict):
        raise _refuse(name, "must be of the type text, json_object, or json_schema with a json_schema")
    passed = {key: inner[key] for key in ("name", "description", "strict") if key in inner}
    schema = schemas.check(inner.get("schema"), f"{name}.json_schema.schema")
    return {"type": kind, "json_schema": {**passed, "schema": schema}}


def _never(instead: str) -> Check:
    def check(_value: Any, name: str, _: Schemas) -> Any:
        raise Refusal(400, f"{name} is not passed on: {instead}", param=name, code="unsupported_parameter")

    return check


_GRAMMARS: Final = (
    *("grammar", "grammar_lazy", "grammar_triggers", "json_schema", "structured_outputs", "structural_tag"),
    *("guided_json", "guided_regex", "guided_choice", "guided_grammar"),
)
FIELDS: Final[Mapping[str, Check]] = {
    "model": _text,
    "messages": _messages,
    # sampling
    "temperature": _number(0, 2),
    **dict.fromkeys(("top_p", "min_p", "typical_p"), _number(0, 1)),
    "top_k": _whole(-1, 1000),
    **dict.fromkeys(("presence_penalty", "frequency_penalty"), _number(-2, 2)),
    **dict.fromkeys(("repeat_penalty", "repetition_penalty"), _number(0.1, 2)),
    "repeat_last_n": _whole(0, 4096),
    "logit_bias": _logit_bias,
    "seed": _whole(-(2**63), 2**63 - 1 - MOST_ANSWERS),
    # how much
    "n": _whole(1, MOST_ANSWERS),
    **dict.fromkeys(("max_tokens", "max_completion_tokens"), _whole(1)),
    "stop": _stop,
    "logprobs": _flag,
    "top_logprobs": _whole(0, 20),
    # form
    "response_format": _response_format,
    "tools": _tools,
    "tool_choice": _tool_choice,
    "parallel_tool_calls": _flag,
    **dict.fromkeys(("reasoning_effort", "verbosity"), _text),
    "chat_template_kwargs": _pairs,
    "stream": _flag,
    "stream_options": _stream_options,
    # whose it is
    **dict.fromkeys(("user", "safety_identifier", "service_tier", "prompt_cache_key"), _text),
    "metadata": _pairs,
    "store": _flag,
    # a grammar may hold a server up however short it is
    **dict.fromkeys(_GRAMMARS, _never("use response_format with a JSON schema")),
    **dict.fromkeys(("functions", "function_call"), _never("use tools and tool_choice")),
    "audio": _never("answers are text"),
}


def choose_fields(document: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What is passed on, and the names of what is left out. A null is a field that was not sent. Raises Refusal."""
    sent = {name: value for name, value in document.items() if value is not None or name == "messages"}
    sent.setdefault("messages")
    schemas = Schemas()
    passed = {name: _check(name, sent[name], schemas) for name in FIELDS if name in sent}
    choice, tools = passed.get("tool_choice"), passed.get("tools", ())
    if isinstance(choice, dict) and all(tool["function"]["name"] != choice["function"]["name"] for tool in tools):
        raise _refuse("tool_choice", "names a function that is not among the tools")
    if choice == "required" and not tools:
        raise _refuse("tool_choice", "demands a call, and there are no tools")
    return passed, [*sorted(sent.keys() - FIELDS.keys()), *schemas.left_out]


def check_field(name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """The field alone; empty where it is not there. Raises Refusal."""
    value = document.get(name)
    return {} if value is None else {name: _check(name, value, Schemas())}


def _check(name: str, value: Any, schemas: Schemas) -> Any:
    try:
        return FIELDS[name](value, name, schemas)
    except BadSchema as error:
        raise Refusal(400, str(error), param=error.param, code=error.code) from None
