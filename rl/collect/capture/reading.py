"""What the arguments and results of foreign agents say, under the names that are common for it."""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

QUERY = ("query", "user_query", "question", "prompt", "message", "messages", "user_input", "input", "task", "text")
SESSION = ("session_id", "thread_id", "conversation_id")
TOOL = ("tool_name", "function_name", "tool_call", "tool", "name", "function")
ARGUMENTS = ("arguments", "tool_input", "tool_args", "args", "kwargs", "parameters", "params", "input")
ANSWER = (
    *("final_response", "final_answer", "final_output", "answer", "response"),
    *("output_text", "output", "content", "text", "result"),
)
CHUNK = ("chunk", "delta", "content", "text")
OTHERS = "*args"
"""Arguments without a name."""


class Parameters:
    """Which argument of a function is which, found out once."""

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):  # some built-in functions have no signature
            parameters = dict[str, inspect.Parameter]().values()
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self.names = tuple(parameter.name for parameter in parameters if parameter.kind in positional)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        arguments = dict(zip(self.names, args, strict=False))
        if len(args) > len(self.names):
            arguments[OTHERS] = list(args[len(self.names) :])
        return {**arguments, **kwargs}


def query(args: tuple[Any, ...], arguments: Mapping[str, Any]) -> Any:
    """The user's question: by the name of the argument, else the first one."""
    text = _first(arguments, QUERY)
    return _question(text if text is not None else args[0] if args else "")


def _question(value: Any) -> Any:
    if isinstance(value, Mapping):
        inner = _first(value, QUERY)
        return value if inner is None else _question(inner)
    if isinstance(value, (list, tuple)):
        contents = [_field(message, "content") for message in value if _field(message, "role") == "user"]
        return contents[-1] if contents else list(value)
    return value


def session(arguments: Mapping[str, Any]) -> str:
    """Empty where the call names none."""
    name = _first(arguments, SESSION)
    return str(name) if name else ""


class ToolUse(NamedTuple):
    name: str
    arguments: Any


def tool_use(call_arguments: Mapping[str, Any], fallback: str) -> ToolUse:
    """The tool and its arguments in a call of a method that calls tools by name: ``call_tool(name, arguments)``,
    ``run(name, **arguments)``, or with a call as OpenAI's API gives it. ``fallback``: the name where none is found."""
    rest = dict(call_arguments)
    called = _take_tool(rest)
    function = _field(called, "function") or called
    arguments = _field(function, "arguments")
    if arguments is None:
        alone = next(iter(rest), "") if len(rest) == 1 else ""
        arguments = rest[alone] if alone in ARGUMENTS else rest
        if alone == OTHERS and len(rest[OTHERS]) == 1:
            arguments = rest[OTHERS][0]
    name = function if isinstance(function, str) else _field(function, "name")
    return ToolUse(name if isinstance(name, str) else fallback, parse_arguments(arguments))


def _take_tool(rest: dict[str, Any]) -> Any:
    """What says which tool: by the name of the argument, else the first one."""
    key = next((name for name in TOOL if name in rest), next(iter(rest), ""))
    if key != OTHERS:
        return rest.pop(key, None)
    first, *others = rest.pop(OTHERS)
    if others:
        rest[OTHERS] = others
    return first


def parse_arguments(arguments: Any) -> Any:
    """Arguments as JSON text become what they say."""
    if isinstance(arguments, str) and arguments[:1] in "{[" and len(arguments) < 100_000:
        try:
            return json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
    return arguments


def failure(result: Any) -> str:
    """What a tool says that failed without raising, as MCP and many wrappers have it; empty when it worked."""
    flags = [_field(result, name) for name in ("success", "ok")]
    error = _field(result, "error")
    if False in flags or True in (_field(result, "isError"), _field(result, "is_error")):
        return str(error or answer(result) or "failed")
    if isinstance(result, Mapping) and error and True not in flags:
        return str(error)
    return ""


def answer(result: Any) -> Any:
    """The text of a final result; what has none is given back as it is."""
    if result is None or isinstance(result, str):
        return result or ""
    if choices := _field(result, "choices"):
        return _field(_field(choices[0], "message"), "content") or ""
    inner = _first(result, ANSWER) if isinstance(result, Mapping) else _attribute(result, ANSWER)
    return result if inner is None else answer(inner) if inner is not result else result


def chunk(item: Any) -> str:
    """The text of one item of a stream; empty for what is not part of the answer."""
    if isinstance(item, str):
        return item
    if choices := _field(item, "choices"):
        return _text(_field(_field(choices[0], "delta"), "content"))
    if _field(item, "type") not in (None, "content", "text", "delta", "token"):
        return ""
    return next(filter(None, (_text(_field(item, name)) for name in CHUNK)), "")


class Usage(NamedTuple):
    tokens_in: int
    tokens_out: int
    cost: float


def usage(result: Any) -> Usage | None:
    """Tokens and cost in a result of OpenAI, Anthropic, LangChain, Gemini or litellm, an object or a dictionary; None
    where nothing is said."""
    for holder in result if isinstance(result, tuple) else (result,):
        for name in ("usage", "usage_metadata", "token_usage"):
            if counts := _field(holder, name):
                return Usage(_count(counts, _TOKENS_IN), _count(counts, _TOKENS_OUT), _cost(holder, counts))
    if isinstance(result, Mapping) and _first(result, _TOKENS_IN) is not None:
        return Usage(_count(result, _TOKENS_IN), _count(result, _TOKENS_OUT), _cost(result, result))
    return None


_TOKENS_IN = ("prompt_tokens", "input_tokens", "prompt_token_count", "tokens_in")
_TOKENS_OUT = ("completion_tokens", "output_tokens", "candidates_token_count", "tokens_out")


def _count(counts: Any, names: Iterable[str]) -> int:
    return next((int(count) for name in names if _is_number(count := _field(counts, name))), 0)


def _cost(holder: Any, counts: Any) -> float:
    hidden = _field(holder, "_hidden_params")
    sources = [(source, name) for source in (counts, holder) for name in ("cost", "total_cost")]
    sources.append((hidden, "response_cost"))
    return next((float(cost) for source, name in sources if _is_number(cost := _field(source, name))), 0.0)


def number(value: object, name: str) -> float:
    count = _field(value, name)
    return float(count) if _is_number(count) else 0.0


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _field(value: Any, name: str) -> Any:
    """Its entry or attribute; None if there is none. What computes attributes may do so wrongly: that is none, too."""
    if isinstance(value, Mapping):
        return value.get(name)
    if value is None or isinstance(value, (str, bytes, int, float, list, tuple)):
        return None
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001  somebody's property
        return None


def _first(arguments: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((arguments[name] for name in names if arguments.get(name) is not None), None)


def _attribute(value: Any, names: Iterable[str]) -> Any:
    values = (_field(value, name) for name in names)
    return next((inner for inner in values if inner is not None and not callable(inner)), None)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
