"""Where finished traces go: files, the API, or both, each by a thread of its own: neither waits for the other."""

import atexit
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic

from rl.base.errors import UsageError
from rl.collect.capture.execution_trace import ExecutionTrace
from rl.collect.capture.sender import ApiClient, Parcel, Sender
from rl.collect.capture.trace_files import Outbox, TraceFiles
from rl.collect.capture.troubles import Troubles
from rl.collect.capture.worker import Outcome, Worker

Job = Callable[[], None]


class Delivery:
    """Raises UsageError for settings that cannot work."""

    def __init__(
        self,
        data_dir: Path | str | None,
        api_url: str | None,
        api_key: str | None,
        agent: str | None,
        troubles: Troubles,
        capacity: int,
        timeout: float,
        exit_timeout: float,
        trace_dir: Path | str | None = None,
    ) -> None:
        if trace_dir is None and data_dir is not None:
            trace_dir = Path(data_dir) / "rl_traces"
        if trace_dir is None and api_url is None:
            raise UsageError("say where traces go: data_dir, api_url, or both")
        if api_url is not None and agent is None:
            raise UsageError("say whose traces these are: agent=, the name of an agent in Ratchet")
        self._counts: Counter[str] = Counter()
        self._troubles, self._exit_timeout, self._closed = troubles, exit_timeout, False
        self.files = TraceFiles(Path(trace_dir), troubles) if trace_dir is not None else None
        self._disk = self._make_disk(capacity) if self.files else None
        self._sender = self._network = None
        if api_url is not None:
            outbox = Outbox(Path(data_dir)) if data_dir is not None else None
            client = ApiClient(api_url, api_key or "", timeout)
            self._sender = Sender(client, agent or "", outbox, troubles, self._counts)
            self._network = Worker(
                "ratchet traces to the API",
                self._sender.work,
                batch=self._sender.batch,
                capacity=capacity,
                overflow=partial(self._put_aside, self._sender),
                troubles=self._troubles,
            )
        atexit.register(self.close)

    def put(self, trace: ExecutionTrace) -> None:
        if self._closed:
            self._troubles.count_lost(self._counts)
            return
        if self._disk and self.files:
            self._disk.put(partial(self._write, self.files, trace))
        if self._network:
            self._network.put(Parcel(trace.trace_id, trace))

    def count_traces(self) -> dict[str, int]:
        waiting = sum(worker.waiting() for worker in (self._disk, self._network) if worker)
        return {**dict.fromkeys(("written", "sent", "refused", "kept", "lost"), 0), **self._counts, "waiting": waiting}

    def flush(self, timeout: float) -> bool:
        deadline = monotonic() + timeout
        sent = self._network.flush(deadline) if self._network else True
        return self.flush_disk(deadline) and sent

    def flush_disk(self, deadline: float | None = None) -> bool:
        return self._disk.flush(deadline or monotonic() + self._exit_timeout) if self._disk else True

    def close(self, timeout: float | None = None) -> bool:
        if self._closed:
            return True
        self._closed = True
        atexit.unregister(self.close)
        deadline = monotonic() + (self._exit_timeout if timeout is None else timeout)
        unsent = self._network.close(deadline) if self._network else []
        for parcel in unsent:
            if self._sender:
                self._sender.keep(parcel)
        unwritten = self._disk.close(deadline) if self._disk else []
        for job in unwritten:  # a thread that could not start left them; one that hangs would make this one hang too
            self._troubles.count_lost(self._counts) if monotonic() >= deadline else self._work([job])
        return not unsent and not unwritten

    def _make_disk(self, capacity: int) -> Worker[Job]:
        return Worker(
            "ratchet traces to disk",
            self._work,
            batch=lambda: 1,
            capacity=capacity,
            overflow=lambda _: self._troubles.count_lost(self._counts),
            troubles=self._troubles,
        )

    def _put_aside(self, sender: Sender, parcel: Parcel) -> None:
        """Onto the disk, by its thread: this one is the agent's."""
        if self._disk:
            self._disk.put(partial(sender.keep, parcel))
        else:
            self._troubles.count_lost(self._counts)

    def _work(self, jobs: list[Job]) -> Outcome[Job]:
        for job in jobs:
            try:
                job()
            except Exception as error:  # noqa: BLE001  the next trace may be written
                self._troubles.log_failure("writing a trace", error)
                self._troubles.count_lost(self._counts)
        return Outcome([], 0)

    def _write(self, files: TraceFiles, trace: ExecutionTrace) -> None:
        try:
            files.write(trace)
        except OSError as error:
            self._troubles.count_lost(self._counts)
            self._troubles.once(
                f"writing:{error.errno}", "traces cannot be written to %s: %s", files.folder, error.strerror
            )
        else:
            self._counts["written"] += 1
