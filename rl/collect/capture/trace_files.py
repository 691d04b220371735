"""Trace files in folders of their day, what they hold in numbers, and the outbox: what could not be delivered.

Only the label of a file changes once it is there."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rl.base.errors import BadFile, UsageError
from rl.base.slugs import check_slug
from rl.collect.capture.execution_trace import ExecutionTrace
from rl.collect.capture.troubles import Troubles


class TraceFiles:
    def __init__(self, folder: Path, troubles: Troubles) -> None:
        self.folder = folder
        self._troubles = troubles

    def write(self, trace: ExecutionTrace) -> None:
        write_whole(self.folder / trace.timestamp[:10] / f"{trace.trace_id}.json", document(trace.to_dict()))

    def all(self) -> Iterator[ExecutionTrace]:
        """Newest first. A file that is not a trace is left out and logged once."""
        for day in sorted(self.folder.glob("*/"), reverse=True):
            for path in sorted(day.glob("*.json"), key=age, reverse=True):
                try:
                    yield read(path)
                except BadFile as error:
                    self._troubles.once(f"reading:{path}", "%s", error)

    def label(self, trace_id: str, label: bool | None, notes: str) -> ExecutionTrace:
        """Raises UsageError when there is no such trace."""
        check_slug(trace_id, "trace id")
        path = next(self.folder.glob(f"*/{trace_id}.json"), None)
        if path is None:
            raise UsageError(f"there is no trace {trace_id!r} in {self.folder}")
        trace = read(path)
        trace.label, trace.manual_review, trace.review_notes = label, True, notes
        write_whole(path, document(trace.to_dict()))
        return trace


def age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # gone meanwhile
        return 0.0


def read(path: Path) -> ExecutionTrace:
    """Raises BadFile."""
    try:
        return ExecutionTrace.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError, UsageError) as error:
        raise BadFile(path, str(error)) from error


def document(stored: Any) -> bytes:
    return json.dumps(stored, ensure_ascii=False, allow_nan=False).encode("utf-8")


def write_whole(path: Path, content: bytes) -> None:
    """Beside its place, then renamed: a process that is killed leaves no half file. Unlike ``rl.base.files`` it does not
    wait for the disk, which is the agent's, nor look for abandoned files among 100,000 others."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        try:
            partial.write_bytes(content)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(content)
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


class Outbox:
    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir / "rl_outbox"

    def keep(self, trace_id: str, body: bytes) -> None:
        """Raises OSError."""
        write_whole(self.folder / f"{trace_id}.json", body)

    def remove(self, trace_id: str) -> None:
        with suppress(OSError):
            (self.folder / f"{trace_id}.json").unlink(missing_ok=True)

    def waiting(self) -> Iterator[tuple[str, bytes]]:
        """Trace id and body, oldest first. What another process has delivered meanwhile is left out."""
        for path in sorted(self.folder.glob("*.json"), key=age):
            with suppress(OSError):
                yield path.stem, path.read_bytes()


def statistics(traces: Iterable[tuple[str, ExecutionTrace]]) -> dict[str, Any]:
    """Statistics of traces that come with the names of their agents, in one pass, in the order of
    ToolBoxV2. Lengths are in characters; sessions of two agents under one name count as two."""
    sums: Counter[str] = Counter()
    sessions: set[tuple[str, str]] = set()
    tools: set[str] = set()
    cost = 0.0
    for agent, trace in traces:
        sessions.add((agent, trace.session_id))
        tools |= {call.tool_name for call in trace.tool_calls}
        cost += trace.total_cost
        sums.update(
            total_traces=1,
            labeled_traces=int(trace.label is not None),
            traces_with_tool_calls=int(bool(trace.tool_calls)),
            traces_with_reasoning=int(bool(trace.reasoning_steps)),
            query_length=len(trace.user_query),
            response_length=len(trace.final_response),
            total_tokens_in=trace.total_tokens_in,
            total_tokens_out=trace.total_tokens_out,
        )
    total = sums["total_traces"]
    return {
        "total_traces": total,
        "unique_sessions": len(sessions),
        "labeled_traces": sums["labeled_traces"],
        "unlabeled_traces": total - sums["labeled_traces"],
        "traces_with_tool_calls": sums["traces_with_tool_calls"],
        "traces_with_reasoning": sums["traces_with_reasoning"],
        "unique_tools_used": len(tools),
        "tools_list": sorted(tools),
        "avg_query_length": sums["query_length"] / total if total else 0.0,
        "avg_response_length": sums["response_length"] / total if total else 0.0,
        "total_tokens_in": sums["total_tokens_in"],
        "total_tokens_out": sums["total_tokens_out"],
        "total_cost": cost,
    }
