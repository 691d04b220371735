"""What stands in for Langfuse: its scores and observations, as its SDK reads them (tests/commands/test_otlp_clients.py)."""

import base64
import json
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

KEY = "pk-lf-1:sk-lf-1"
PER_PAGE = 2


def moment(minute: int) -> str:
    return f"2026-02-01T12:{minute:02}:00.000Z"


def score(number: int = 1, value: Any = True, minute: int = 0, **more: Any) -> dict[str, Any]:
    common = {"projectId": "p", "source": "ANNOTATION", "environment": "default", "comment": "nice", "metadata": {}}
    times = dict.fromkeys(("timestamp", "createdAt", "updatedAt"), moment(minute))
    return {
        "id": f"s{number}",
        "name": "user-feedback",
        "value": value,
        "dataType": "BOOLEAN",
        "authorUserId": "ann",
        "subject": {"kind": "trace", "id": f"t{number}"},
        **common,
        **times,
        **more,
    }


def generation(trace: int = 1, number: int = 1, said: str = "In Bonn.", minute: int = 0) -> dict[str, Any]:
    return {
        "id": f"g{trace}-{number}",
        "traceId": f"t{trace}",
        "projectId": "p",
        "startTime": moment(minute),
        "endTime": moment(minute),
        "parentObservationId": None,
        "type": "GENERATION",
        "name": "chat",
        "sessionId": "talk-9",
        "input": json.dumps([{"role": "user", "content": "Where is 4711?"}]),
        "output": json.dumps({"role": "assistant", "content": said}),
        "model": "tiny",
        "usageDetails": {"input": 12, "output": 4},
    }


class LangfuseDouble:
    url = ""

    def __init__(self) -> None:
        self.scores: list[dict[str, Any]] = []
        self.generations: list[dict[str, Any]] = []
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        self.now = 1769947200 + 3600

    def answer(self, path: str, key: str) -> tuple[int, bytes]:
        parts = urlsplit(path)
        asked = parse_qs(parts.query)
        self.asked.append((parts.path, asked))
        if key != f"Basic {base64.b64encode(KEY.encode()).decode()}":
            return 401, b'{"message": "Invalid credentials. Confirm that you\'ve configured the correct host."}'
        if parts.path == "/api/public/v3/scores":
            return 200, json.dumps(self._page(asked)).encode()
        if parts.path == "/api/public/v2/observations":
            rows = [row for row in self.generations if [row["traceId"]] == asked["traceId"]]
            return 200, json.dumps({"data": rows, "meta": {}}).encode()
        return 404, b"{}"

    def _page(self, asked: dict[str, list[str]]) -> dict[str, Any]:
        since = datetime.fromisoformat(asked.get("fromTimestamp", [moment(0)])[0])
        due = [row for row in self.scores if datetime.fromisoformat(row["timestamp"]) >= since]
        newest = sorted(due, key=lambda row: row["timestamp"])[::-1]
        start = int(asked.get("cursor", ["0"])[0])
        more = {"cursor": str(start + PER_PAGE)} if len(newest) > start + PER_PAGE else {}
        return {"data": newest[start : start + PER_PAGE], "meta": {"limit": PER_PAGE, **more}}
