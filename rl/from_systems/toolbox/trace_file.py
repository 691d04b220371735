"""ToolBoxV2's trace files: ``rl_traces/YYYY-MM-DD/{trace_id}.json``, one object each, in the form of Ratchet's own.

What its old hook recorded of a tool, ``{"args": [...], "kwargs": {...}}``, becomes the arguments that the tool got."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rl.collect.importers import trace_file
from rl.collect.importers.rows import Record
from rl.collect.traces.imported import ImportedTrace, Rejected

RATERS = trace_file.Raters("user:toolbox", "system:toolbox")


def read(path: Path) -> Iterator[Record | Rejected]:
    """One file, or all below a folder."""
    return trace_file.read_files(path, trace)


def trace(
    row: Mapping[str, Any], where: str, *, agent: str = "", details: Mapping[str, Any] | None = None
) -> ImportedTrace:
    """From the fields of a trace file. Raises Refused."""
    return trace_file.trace(unfold_tool_calls(row), where, agent=agent, details=details, raters=RATERS)


def unfold_tool_calls(row: Mapping[str, Any]) -> Mapping[str, Any]:
    calls = row.get("tool_calls")
    return {**row, "tool_calls": [_unfold_call(call) for call in calls]} if isinstance(calls, list) else row


def _unfold_call(call: Any) -> Any:
    if not isinstance(call, Mapping):
        return call
    match call.get("arguments"):
        case {"args": list() as args, "kwargs": dict() as kwargs, **others} if not others:
            return {**call, "arguments": {"args": args, **kwargs} if args else kwargs}
    return call
