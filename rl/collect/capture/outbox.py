"""Traces that could not be delivered wait in ``{data_dir}/rl_outbox/``, one file each, also for the next process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rl.collect.capture.trace_files import age, write_whole


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
