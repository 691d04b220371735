"""Tools that play back what was recorded, and reach for nothing else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rl.base.records import ToolCall
from rl.environments.tools.base import BaseTool, ToolFailed

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
        found = results[min(self._played[key], len(results) - 1)]
        self._played[key] += 1
        error = str(found.get("error") or "")
        return ToolCall(name, dict(arguments), _text(found.get("result")), _succeeded(found), 0.0, error)


class RecordedTool(BaseTool):
    def __init__(self, schema: Mapping[str, Any], recording: Recording) -> None:
        self.schema, self._recording = schema, recording
        self.name = schema["function"]["name"]

    def run(self, /, **arguments: Any) -> str:
        played = self._recording.play(self.name, arguments)
        if played.error:
            raise ToolFailed(played.error)
        return str(played.result or "")


def call_key(name: str, arguments: Mapping[str, Any]) -> str:
    """Equal for calls that ask for the same: the order of keys, space around texts, and 1 or 1.0 tell nothing apart."""
    return json.dumps([name.strip(), _plain(arguments)], ensure_ascii=False, sort_keys=True)


def key_of(call: Recorded) -> str:
    """As ``call_key``; empty for arguments that are no object, as those that were cut when they were recorded."""
    arguments = arguments_of(call)
    return "" if arguments is None else call_key(str(call["tool_name"]), arguments)


def arguments_of(call: Recorded) -> dict[str, Any] | None:
    given = call.get("arguments")
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError):
            return None
    if given is None:
        return {}
    return dict(given) if isinstance(given, Mapping) else None


def merged(traces: Sequence[Sequence[Recorded]]) -> list[Recorded]:
    """Of several traces of one prompt, the oldest first: each call with the results that the trace has which made it most
    often, of several such traces the newest. For in each of them the world began anew."""
    best: dict[str, list[Recorded]] = {}
    for calls in traces:
        own: dict[str, list[Recorded]] = {}
        for call in calls:
            if key := key_of(call):
                own.setdefault(key, []).append(call)
        for key, results in own.items():
            if len(results) >= len(best.get(key, ())):
                best[key] = results
    return [call for results in best.values() for call in _without_echo(results)]


def schemas_of(recorded: Iterable[Recorded]) -> list[dict[str, Any]]:
    """Of the tools that were called with success, or of all where none was: an argument has the type that it had most often,
    and is required where no call was without it."""
    calls = [call for call in recorded if key_of(call)]
    known = [call for call in calls if _succeeded(call)] or calls
    names = dict.fromkeys(str(call["tool_name"]).strip() for call in known)
    return [
        _schema(name, [arguments_of(call) or {} for call in known if str(call["tool_name"]).strip() == name])
        for name in names
    ]


def _schema(name: str, called: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = dict.fromkeys(argument for arguments in called for argument in arguments)
    values = {argument: [each[argument] for each in called if argument in each] for argument in names}
    properties = {argument: {"type": _type(found)} for argument, found in values.items()}
    required = [argument for argument, found in values.items() if len(found) == len(called)]
    shape = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": "", "parameters": shape}}


def _type(values: Iterable[Any]) -> str:
    """The commonest."""
    kinds = (next((word for kind, word in _TYPES if isinstance(value, kind)), "") for value in values)
    counted = Counter(kind for kind in kinds if kind)
    return counted.most_common(1)[0][0] if counted else "string"


def _without_echo(results: Sequence[Recorded]) -> Iterator[Recorded]:
    """The last is repeated anyway."""
    end = len(results)
    while end > 1 and _outcome(results[end - 1]) == _outcome(results[end - 2]):
        end -= 1
    yield from results[:end]


def _outcome(call: Recorded) -> tuple[Any, ...]:
    return call.get("result"), call.get("success"), call.get("error")


def _succeeded(call: Recorded) -> bool:
    said = call.get("success")
    return said if isinstance(said, bool) else not call.get("error")


def _text(result: Any) -> str | None:
    if result is None or isinstance(result, str):
        return result
    return json.dumps(result, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value
