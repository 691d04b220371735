"""Tools that play back what was recorded, and reach for nothing else."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rl.base.records import ToolCall
from rl.environments.tools.registry import BaseTool, ToolFailed

_TYPES = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (dict, "object"), (list, "array"))
Recorded = Mapping[str, Any]
"""The fields of a ToolCall, of which ``tool_name`` must be there. ``arguments``: an object, or its JSON as text."""


class NeverRecorded(ToolFailed):
    """Nobody knows what would have come of the call."""


class Recording:
    """Results in the order in which they were recorded: the same call again gets the next one, after the last that again."""

    def __init__(self, recorded: Iterable[Recorded]) -> None:
        """What no agent can have called is left out."""
        self._results: dict[str, list[Recorded]] = {}
        for call in recorded:
            if key := key_of(call):
                self._results.setdefault(key, []).append(call)
        self._names = {str(call["tool_name"]).strip() for calls in self._results.values() for call in calls}
        self._played: Counter[str] = Counter()

    def play(self, name: str, arguments: Mapping[str, Any]) -> ToolCall:
        """Raises NeverRecorded."""
        key = call_key(name, arguments)
        if key not in self._results:
            what = f"{name}(...) with these arguments" if name.strip() in self._names else f"a call of {name}"
            raise NeverRecorded(f"{what} was never recorded")
        results = self._results[key]
        call = results[min(self._played[key], len(results) - 1)]
        self._played[key] += 1
        result, error = call.get("result"), str(call.get("error") or "")
        if not (result is None or isinstance(result, str)):
            result = json.dumps(result, ensure_ascii=False)
        return ToolCall(name, dict(arguments), result, _is_success(call), 0.0, error)


class RecordedTool(BaseTool):
    def __init__(self, schema: Mapping[str, Any], recording: Recording) -> None:
        self.schema, self._recording = schema, recording
        self.name = schema["function"]["name"]

    def run(self, /, **arguments: Any) -> str:
        call = self._recording.play(self.name, arguments)
        if call.error:
            raise ToolFailed(call.error)
        return str(call.result or "")


def call_key(name: str, arguments: Mapping[str, Any]) -> str:
    """Equal for calls that ask for the same: the order of keys, space around texts, and 1 or 1.0 tell nothing apart."""
    return json.dumps([name.strip(), _plain(arguments)], ensure_ascii=False, sort_keys=True)


def key_of(call: Recorded) -> str:
    """As ``call_key``; empty for arguments that are not an object, such as those that were cut when they were recorded."""
    arguments = arguments_of(call)
    return "" if arguments is None else call_key(str(call["tool_name"]), arguments)


def arguments_of(call: Recorded) -> dict[str, Any] | None:
    arguments = call.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError):
            return None
    if arguments is None:
        return {}
    return dict(arguments) if isinstance(arguments, Mapping) else None


def merge_traces(traces: Sequence[Sequence[Recorded]]) -> list[Recorded]:
    """The calls of several traces of one prompt, which come oldest first. Each call has its results from the one trace
    that made it most often, the newest of several such: in every trace the world began anew."""
    best: dict[str, list[Recorded]] = {}
    for calls in traces:
        by_key: dict[str, list[Recorded]] = {}
        for call in calls:
            if key := key_of(call):
                by_key.setdefault(key, []).append(call)
        for key, results in by_key.items():
            if len(results) >= len(best.get(key, ())):
                best[key] = results
    for results in best.values():
        outcomes = [tuple(call.get(name) for name in ("result", "success", "error")) for call in results]
        while len(outcomes) > 1 and outcomes[-1] == outcomes[-2]:  # the last is repeated anyway
            outcomes.pop()
        del results[len(outcomes) :]
    return [call for results in best.values() for call in results]


def schemas_of(recorded: Iterable[Recorded]) -> list[dict[str, Any]]:
    """Schemas of the tools that were called with success, or of all where none was: an argument has the JSON type that it
    had most often, and is required where no call was without it."""
    calls = [call for call in recorded if key_of(call)]
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for call in [call for call in calls if _is_success(call)] or calls:
        by_name.setdefault(str(call["tool_name"]).strip(), []).append(arguments_of(call) or {})
    schemas = []
    for name, of_tool in by_name.items():
        properties, required = {}, []
        for argument in dict.fromkeys(argument for call in of_tool for argument in call):
            values = [call[argument] for call in of_tool if argument in call]
            kinds = (next((word for kind, word in _TYPES if isinstance(value, kind)), "") for value in values)
            counts = Counter(filter(None, kinds))
            properties[argument] = {"type": counts.most_common(1)[0][0] if counts else "string"}
            required += [argument] if len(values) == len(of_tool) else []
        shape = {"type": "object", "properties": properties, "required": required}
        about = {"name": name, "description": "", "parameters": shape}
        schemas.append({"type": "function", "function": about})
    return schemas


def _is_success(call: Recorded) -> bool:
    success = call.get("success")
    return success if isinstance(success, bool) else not call.get("error")


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value
