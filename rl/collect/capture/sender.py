"""Delivers traces to Ratchet, in batches, until each is stored or refused.

- No answer, 408, 409, 425, 429, 5xx, or an answer that is not Ratchet's: the same traces again, later and later (at
  most a minute apart, or when ``Retry-After`` says). Their external ids make that safe.
- 400, 413, 422, 500 for a batch: smaller batches, down to the one trace that is at fault. That one is given up.
- 401, 403, 404 and other refusals, and 500 time and again, are not the trace's fault: it goes to the outbox, from where
  the next process sends it, with the right key, to a server that knows the agent."""

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from http.client import HTTPException
from itertools import islice
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from rl.base.errors import UsageError
from rl.base.records import TaskEvent
from rl.collect.capture.cleaning import CUT
from rl.collect.capture.execution_trace import ExecutionTrace
from rl.collect.capture.trace_files import Outbox
from rl.collect.capture.troubles import Troubles
from rl.collect.capture.worker import Outcome
from rl.collect.limits import MAX_ID_LENGTH, MAX_WHOLE_NUMBER

PATH = "/api/v1/traces/"
LARGEST_ANSWER = 4 * 1024 * 1024
_KEY = re.compile(r"[!-~]+")


class ApiReply(NamedTuple):
    status: int
    """0: there was none."""
    document: Any = None
    """What the answer says, if it is JSON."""
    reason: str = ""
    """For people: the problem's text, or why there was no answer."""
    retry_after: float | None = None
    """Seconds."""


class ApiClient:
    """Raises UsageError for an address or a key that cannot be right; the key is in no message."""

    def __init__(self, url: str, key: str, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise UsageError(
                f"the address of the API must look like https://ratchet.example, not {parts.geturl()[:100]!r}"
            )
        if parts.username or parts.password:
            raise UsageError("the address of the API must not contain a user name or a password")
        self.url = url.rstrip("/") + PATH
        if not _KEY.fullmatch(key or ""):
            raise UsageError("the API key is missing, or has characters that no key has; it looks like sk_…")
        self._key, self._timeout = key, timeout
        # Neither redirects, which would carry the key to another host, nor any scheme but these two.
        self._opener = OpenerDirector()
        for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler()):
            self._opener.add_handler(handler)

    def post(self, body: bytes) -> ApiReply:
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        request = Request(self.url, body, headers, method="POST")  # noqa: S310  checked above
        try:
            with closing(self._opener.open(request, timeout=self._timeout)) as response:
                try:
                    document = json.loads(response.read(LARGEST_ANSWER))
                except (ValueError, RecursionError):
                    document = None
                reason = problem_text(document) or "no answer of Ratchet's"
                if 300 <= response.status < 400:
                    reason = f"the address redirects to {response.headers.get('Location', '')[:200]!r}: use that one"
                # Seconds to wait by a Retry-After header; None for its other form, a date, which Ratchet never sends.
                wait = re.fullmatch(r"[0-9]{1,6}", response.headers.get("Retry-After", ""))
                return ApiReply(response.status, document, reason, float(wait[0]) if wait else None)
        except (OSError, HTTPException, ValueError) as error:
            return ApiReply(0, reason=str(getattr(error, "reason", "")) or type(error).__name__)


def problem_text(problem: Any) -> str:
    """The text of a problem document (RFC 9457)."""
    if not isinstance(problem, dict):
        return ""
    return str(problem.get("detail") or problem.get("title") or "")[:500]


LARGEST_BATCH = 100
MOST_BYTES = 1024 * 1024
"""Most bytes of a batch of more than one trace; a server takes 2.5 MiB unless it is told otherwise."""
MOST_TRIES = 5
"""Most tries to deliver a trace that alone breaks the server."""
FIRST_WAIT, LONGEST_WAIT, LONGEST_RETRY_AFTER = 0.5, 60.0, 600.0
"""Seconds."""
_STORED = {200, 201}
_LATER = {0, 408, 409, 425, 429}
_AT_FAULT = {400, 413, 422}
LARGEST = 2 * 2**20
"""Bytes of one trace; a server takes 2.5 MiB unless it is told otherwise."""
_SHORTER = (1_000, 100, 0)
"""Characters of arguments and results, where a trace would be larger."""
_STATUSES: tuple[Literal["created", "completed", "failed"], ...] = ("created", "completed", "failed")


@dataclass(eq=False, slots=True)
class Parcel:
    trace_id: str
    content: ExecutionTrace | bytes
    """Becomes bytes when it is first sent, off the agent's thread."""
    tries: int = 0
    in_outbox: bool = False


class Sender:
    def __init__(
        self, client: ApiClient, agent: str, outbox: Outbox | None, troubles: Troubles, counts: Counter[str]
    ) -> None:
        self._client, self._agent, self._outbox = client, agent, outbox
        self._troubles, self._counts = troubles, counts
        self._size, self._failures = LARGEST_BATCH, 0
        self._old_parcels: Iterator[Parcel] = self._outbox_parcels()

    def batch(self) -> int:
        return self._size

    def work(self, parcels: list[Parcel]) -> Outcome[Parcel]:
        batch, rest = self._split_by_size(parcels)
        answer = self._client.post(b"[" + b",".join(map(self.body, batch)) + b"]")
        if answer.status == 207 and (results := _results(answer, len(batch))) is not None:
            again = self._parcels_to_retry(batch, results)
            self._size = min(self._size * 2, LARGEST_BATCH)
            if self._failures:
                self._failures = 0
                self._troubles.over("delivery", f"{self._client.url} takes traces again")
                self._old_parcels = self._outbox_parcels()
            # While the server takes what is new, it may take what is old.
            old = islice(self._old_parcels, self._size if any(result["status"] in _STORED for result in results) else 0)
            return Outcome([*again, *rest, *old], self._wait(answer) if again else 0)
        if answer.status in _AT_FAULT or answer.status == 500:
            if len(batch) > 1:
                self._size = max(len(batch) // 2, 1)
                return Outcome([*batch, *rest], 0 if answer.status in _AT_FAULT else self._wait(answer))
            if answer.status == 500:
                return Outcome([*self._unless_hopeless(batch[0], answer.reason), *rest], self._wait(answer))
        if answer.status in _LATER or answer.status >= 500 or 200 <= answer.status < 300:
            self._troubles.once("delivery", "%s answers: %s; trying again", self._client.url, _reason(answer))
            return Outcome([*batch, *rest], self._wait(answer))
        for parcel in batch:
            self._refuse(parcel, answer.status, _reason(answer))
        return Outcome(rest, 0)

    def body(self, parcel: Parcel) -> bytes:
        if isinstance(parcel.content, ExecutionTrace):
            parcel.content = body(parcel.content, self._agent)
        return parcel.content

    def keep(self, parcel: Parcel) -> None:
        """Into the outbox, or counted as lost."""
        try:
            if self._outbox is not None:
                if not parcel.in_outbox:
                    self._outbox.keep(parcel.trace_id, self.body(parcel))
                self._counts["kept"] += 1
                return
        except OSError as error:
            self._troubles.log_failure("writing the outbox", error)
        self._troubles.count_lost(self._counts)

    def _split_by_size(self, parcels: list[Parcel]) -> tuple[list[Parcel], list[Parcel]]:
        size = 0
        for count, parcel in enumerate(parcels):
            size += len(self.body(parcel))
            if count and size > MOST_BYTES:
                return parcels[:count], parcels[count:]
        return parcels, []

    def _parcels_to_retry(self, batch: list[Parcel], results: list[dict[str, Any]]) -> list[Parcel]:
        again = []
        for parcel, result in zip(batch, results, strict=True):
            status = result["status"]
            if status in _STORED:
                self._counts["sent"] += 1
                if parcel.in_outbox and self._outbox is not None:
                    self._outbox.remove(parcel.trace_id)
            elif status in _LATER or status >= 500:
                again += self._unless_hopeless(parcel, problem_text(result.get("problem")))
            else:
                self._refuse(parcel, status, problem_text(result.get("problem")))
        return again

    def _unless_hopeless(self, parcel: Parcel, reason: str) -> list[Parcel]:
        parcel.tries += 1
        if parcel.tries < MOST_TRIES:
            return [parcel]
        self._refuse(parcel, 500, reason)
        return []

    def _refuse(self, parcel: Parcel, status: int, reason: str) -> None:
        """``reason`` is logged once for each status and text."""
        self._counts["refused"] += 1
        if status not in _AT_FAULT:
            self._troubles.once(f"refused:{status}:{reason}", "Ratchet does not take traces: %s", reason)
            self.keep(parcel)
            parcel.in_outbox = True
            return
        self._troubles.once(f"refused:{status}:{reason}", "Ratchet refuses trace %s: %s", parcel.trace_id, reason)
        if parcel.in_outbox and self._outbox is not None:
            self._outbox.remove(parcel.trace_id)

    def _outbox_parcels(self) -> Iterator[Parcel]:
        """What earlier processes, and this one while the server was away, have put aside; looked up when asked."""
        if self._outbox is not None:
            for trace_id, body in self._outbox.waiting():
                yield Parcel(trace_id, body, in_outbox=True)

    def _wait(self, answer: ApiReply) -> float:
        self._failures += 1
        if answer.retry_after is not None:
            return min(answer.retry_after, LONGEST_RETRY_AFTER)
        longest = min(FIRST_WAIT * 2 ** min(self._failures - 1, 20), LONGEST_WAIT)
        return longest * random.uniform(0.5, 1)  # noqa: S311  not all clients of a server that was away at once


def _results(answer: ApiReply, count: int) -> list[dict[str, Any]] | None:
    results = answer.document.get("results") if isinstance(answer.document, dict) else None
    if not isinstance(results, list) or len(results) != count:
        return None
    whole = all(isinstance(result, dict) and isinstance(result.get("status"), int) for result in results)
    return results if whole else None


def _reason(answer: ApiReply) -> str:
    return f"{answer.reason} (status {answer.status})" if answer.status else answer.reason


def body(trace: ExecutionTrace, agent: str) -> bytes:
    """As JSON. Of a run that is too large the arguments and results are cut: better than to lose it."""
    stored = payload(trace, agent)
    written = _to_json(stored)
    for longest in _SHORTER:
        if len(written) <= LARGEST:
            break
        stored["tool_calls"] = [
            {**call, **{name: _cut(call[name], longest) for name in ("arguments", "result")}}
            for call in stored["tool_calls"]
        ]
        written = _to_json(stored)
    return written


def payload(trace: ExecutionTrace, agent: str) -> dict[str, Any]:
    """The trace id becomes the external id: sending the same trace again changes nothing. A count of 0 is one that
    nobody took: it is left open."""
    stored = trace.to_dict()
    return {
        "agent": agent,
        "external_id": trace.trace_id,
        "session_id": trace.session_id[:MAX_ID_LENGTH],
        "prompt": [*trace.earlier, {"role": "user", "content": trace.user_query}],
        "response": trace.final_response,
        "tool_calls": stored["tool_calls"],
        "reasoning_steps": stored["reasoning_steps"],
        "tasks": task_events(trace),
        "tokens_in": min(trace.total_tokens_in, MAX_WHOLE_NUMBER) or None,
        "tokens_out": min(trace.total_tokens_out, MAX_WHOLE_NUMBER) or None,
        "llm_calls": trace.llm_calls_count or None,
        "cost": trace.total_cost or None,
        "duration_ms": min(round(trace.execution_duration_ms), MAX_WHOLE_NUMBER),
        "occurred_at": trace.timestamp,
    }


def task_events(trace: ExecutionTrace) -> list[dict[str, Any]]:
    """In the order in which they happened."""
    events = [TaskEvent(status=status, **task) for status in _STATUSES for task in getattr(trace, f"tasks_{status}")]
    return [asdict(event) for event in sorted(events, key=lambda event: event.timestamp)]


def _cut(value: Any, longest: int) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= longest else text[:longest] + CUT


def _to_json(stored: Any) -> bytes:
    return json.dumps(stored, ensure_ascii=False).encode("utf-8")
