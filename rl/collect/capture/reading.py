"""What the arguments and results of foreign agents say, under the names that are common for it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

QUERY = ("query", "user_query", "question", "prompt", "message", "messages", "user_input", "input", "task", "text")
SESSION = ("session_id", "thread_id", "conversation_id")
TOOL = ("tool_name", "function_name", "tool_call", "tool", "name", "function")
ARGUMENTS = ("arguments", "tool_input", "tool_args", "args", "kwargs", "parameters", "params", "input")
ANSWER = (
    "final_response",
    "final_answer",
    "final_output",
    "answer",
    "response",
    "output_text",
    "output",
    "content",
    "text",
    "result",
)
CHUNK = ("chunk", "delta", "content", "text")
OTHERS = "*args"
"""Arguments without a name."""


class Parameters:
    """Which argument of a function is which, found out once."""

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            found = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):  # some built-in functions tell nothing
            found = dict[str, inspect.Parameter]().values()
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self.names = tuple(each.name for each in found if each.kind in positional)

    def named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(zip(self.names, args, strict=False))
        if len(args) > len(self.names):
            given[OTHERS] = list(args[len(self.names) :])
        return {**given, **kwargs}


def query(args: tuple[Any, ...], given: Mapping[str, Any]) -> Any:
    """The user's question: by the name of the argument, else the first one."""
    found = _first(given, QUERY)
    return _question(found if found is not None else args[0] if args else "")


def _question(value: Any) -> Any:
    if isinstance(value, Mapping):
        inner = _first(value, QUERY)
        return value if inner is None else _question(inner)
    if isinstance(value, (list, tuple)):
        said = [_of(message, "content") for message in value if _of(message, "role") == "user"]
        return said[-1] if said else list(value)
    return value


def session(given: Mapping[str, Any]) -> str:
    """Empty where the call names none."""
    found = _first(given, SESSION)
    return str(found) if found else ""


class ToolUse(NamedTuple):
    name: str
    arguments: Any


def tool_use(given: Mapping[str, Any], fallback: str) -> ToolUse:
    """Of a method that calls tools by name: ``call_tool(name, arguments)``, ``run(name, **arguments)``, or with a call
    as OpenAI's API gives it."""
    rest = dict(given)
    called = _taken(rest)
    function = _of(called, "function") or called
    arguments = _of(function, "arguments")
    if arguments is None:
        alone = next(iter(rest), "") if len(rest) == 1 else ""
        arguments = rest[alone] if alone in ARGUMENTS else rest
        if alone == OTHERS and len(rest[OTHERS]) == 1:
            arguments = rest[OTHERS][0]
    name = function if isinstance(function, str) else _of(function, "name")
    return ToolUse(name if isinstance(name, str) else fallback, parsed(arguments))


def _taken(rest: dict[str, Any]) -> Any:
    """What says which tool: by the name of the argument, else the first one."""
    key = next((name for name in TOOL if name in rest), next(iter(rest), ""))
    if key != OTHERS:
        return rest.pop(key, None)
    first, *others = rest.pop(OTHERS)
    if others:
        rest[OTHERS] = others
    return first


def parsed(arguments: Any) -> Any:
    """Arguments as JSON text become what they say."""
    if isinstance(arguments, str) and arguments[:1] in "{[" and len(arguments) < 100_000:
        try:
            return json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
    return arguments


def failure(result: Any) -> str:
    """What a tool says that failed without raising, as MCP and many wrappers have it; empty when it worked."""
    flags = [_of(result, name) for name in ("success", "ok")]
    error = _of(result, "error")
    if False in flags or True in (_of(result, "isError"), _of(result, "is_error")):
        return str(error or answer(result) or "failed")
    if isinstance(result, Mapping) and error and True not in flags:
        return str(error)
    return ""


def answer(result: Any) -> Any:
    """The text of a final result; what has none is given back as it is."""
    if result is None or isinstance(result, str):
        return result or ""
    if choices := _of(result, "choices"):
        return _of(_of(choices[0], "message"), "content") or ""
    found = _first(result, ANSWER) if isinstance(result, Mapping) else _attribute(result, ANSWER)
    return result if found is None else answer(found) if found is not result else result


def chunk(item: Any) -> str:
    """The text of one item of a stream; empty for what is no part of the answer."""
    if isinstance(item, str):
        return item
    if choices := _of(item, "choices"):
        return _text(_of(_of(choices[0], "delta"), "content"))
    if _of(item, "type") not in (None, "content", "text", "delta", "token"):
        return ""
    return next(filter(None, (_text(_of(item, name)) for name in CHUNK)), "")


class Usage(NamedTuple):
    tokens_in: int
    tokens_out: int
    cost: float


def usage(result: Any) -> Usage | None:
    """Of OpenAI, Anthropic, LangChain, Gemini and litellm, as objects or dictionaries; None where nothing is said."""
    for holder in result if isinstance(result, tuple) else (result,):
        for name in ("usage", "usage_metadata", "token_usage"):
            if found := _of(holder, name):
                return Usage(_count(found, _TOKENS_IN), _count(found, _TOKENS_OUT), _cost(holder, found))
    if isinstance(result, Mapping) and _first(result, _TOKENS_IN) is not None:
        return Usage(_count(result, _TOKENS_IN), _count(result, _TOKENS_OUT), _cost(result, result))
    return None


_TOKENS_IN = ("prompt_tokens", "input_tokens", "prompt_token_count", "tokens_in")
_TOKENS_OUT = ("completion_tokens", "output_tokens", "candidates_token_count", "tokens_out")


def _count(found: Any, names: Iterable[str]) -> int:
    return next((int(count) for name in names if _is_number(count := _of(found, name))), 0)


def _cost(holder: Any, found: Any) -> float:
    hidden = _of(holder, "_hidden_params")
    places = (
        (found, "cost"),
        (found, "total_cost"),
        (holder, "cost"),
        (holder, "total_cost"),
        (hidden, "response_cost"),
    )
    return next((float(cost) for place, name in places if _is_number(cost := _of(place, name))), 0.0)


def number(value: object, name: str) -> float:
    found = _of(value, name)
    return float(found) if _is_number(found) else 0.0


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _of(value: Any, name: str) -> Any:
    """Its entry or attribute; None if there is none. What computes attributes may do so wrongly: that is none, too."""
    if isinstance(value, Mapping):
        return value.get(name)
    if value is None or isinstance(value, (str, bytes, int, float, list, tuple)):
        return None
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def _first(given: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((given[name] for name in names if given.get(name) is not None), None)


def _attribute(value: Any, names: Iterable[str]) -> Any:
    found = (_of(value, name) for name in names)
    return next((one for one in found if one is not None and not callable(one)), None)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
