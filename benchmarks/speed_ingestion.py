"""Answers and ratings that come through the API, beside inserting rows that are ready. Without the network: what is timed is
from a request to its answer, through all of Ratchet's middleware."""

import gc
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from django.core.handlers.base import BaseHandler
from django.test import RequestFactory

from benchmarks.import_traces import write_answers
from benchmarks.speed_contest import Way, compete
from benchmarks.speed_database import Ready, count_answers, database, insert_ready, sum_up
from benchmarks.speed_import import prepare
from rl.models import Agent, ApiKey

LIST: Final = 1000
"""Answers or ratings a request."""
JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
Document = dict[str, Any]


def run(base: Path, folder: Path, rounds: int, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """The "loss" sums up what is stored."""
    with database(folder):
        file = write_answers(folder / "answers.jsonl", count_answers(rounds))
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        raw = [prepare(file, f"raw-{number}") for number in range(rounds)]
        ready = [(given.agent, Ready(given.traces), Ready(given.ratings)) for given in raw]
        caller = Caller()

        def insert(number: int) -> float:
            agent, traces, ratings = ready[number]
            insert_ready(traces, ratings)
            return sum_up(agent)

        def make_way(name: str, post: Callable[[Caller, str, list[Document]], None]) -> Way:
            agents = [Agent.objects.create(name=f"{post.__name__}-{number}") for number in range(rounds)]

            def step(number: int) -> float:
                post(caller, agents[number].name, rows)
                return sum_up(agents[number])

            return Way(name, step)

        ways = [Way("raw inserts", insert), make_way("ours, one by one", post_each), make_way("ours", post_lists)]
        return compete(ways, rounds, tell)


class Caller:
    """A server's program, in this process, once it has answered a request."""

    def __init__(self) -> None:
        self._handler = BaseHandler()
        self._handler.load_middleware()
        self._requests = RequestFactory()
        self._key = ApiKey.create(name="speed", kind="secret")[1]
        self.post(
            "/api/v1/traces/",
            json.dumps({"agent": Agent.objects.create(name="first").name, "prompt": "?", "response": "!"}),
        )
        gc.freeze()  # as the server does

    def post(self, path: str, body: str, media_type: str = JSON) -> Any:
        """Raises RuntimeError where it was not taken."""
        authorization = {"HTTP_AUTHORIZATION": f"Bearer {self._key}", "HTTP_HOST": "127.0.0.1"}
        request = self._requests.post(path, body, content_type=media_type, **authorization)
        response = self._handler.get_response(request)
        if response.status_code not in (200, 201, 207):
            raise RuntimeError(f"{path}: {response.status_code} {response.content[:300]!r}")
        return json.loads(response.content)


def post_lists(caller: Caller, agent: str, rows: list[Document]) -> None:
    for part in _parts(rows):
        answers = json.dumps([_answer(agent, row) for row in part])
        stored = caller.post("/api/v1/traces/", answers)["results"]
        ratings = [json.dumps(_rating(answer["id"], row)) for answer, row in zip(stored, part, strict=True)]
        caller.post("/api/v1/feedback/", "\n".join(ratings), LINES)


def post_each(caller: Caller, agent: str, rows: Iterable[Document]) -> None:
    for row in rows:
        stored = caller.post("/api/v1/traces/", json.dumps(_answer(agent, row)))
        caller.post("/api/v1/feedback/", json.dumps(_rating(stored["id"], row)))


def _parts(rows: list[Document]) -> Iterator[list[Document]]:
    return (rows[start : start + LIST] for start in range(0, len(rows), LIST))


def _answer(agent: str, row: Document) -> Document:
    return {"agent": agent, "prompt": row["prompt"], "response": row["completion"][0]["content"]}


def _rating(trace: str, row: Document) -> Document:
    return {"trace": trace, "rater": "import", "scale": "thumb", "value": int(row["label"])}
