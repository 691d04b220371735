"""Clients of the site that keep a ledger of what they were promised. They retry as the documentation tells them to."""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from crash_site import STREAMED, TRAINED, Site

RETRY_SECONDS = 0.3
ANSWER_SECONDS = 25.0
TRAIN_STEPS = 4
UNAVAILABLE = (429, 502, 503, 504, 507)
"""What a client may be told while something is broken; 500 would be a fault that nobody thought of."""


@dataclass
class Ledger:
    traces: list[dict[str, Any]] = field(default_factory=list)
    ratings: list[dict[str, Any]] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """Answers that break a promise by themselves."""

    def write(self, path: Path) -> None:
        path.write_text(
            json.dumps({"traces": self.traces, "ratings": self.ratings, "answers": self.answers, "runs": self.runs})
        )

    def note(self, response: httpx.Response) -> None:
        self.statuses[str(response.status_code)] += 1
        if response.status_code >= 500 and response.status_code not in UNAVAILABLE:
            self.wrong.append(f"{response.request.url.path} answered {response.status_code}: {response.text[:200]!r}")


@dataclass
class Load:
    site: Site
    seed: int
    ledger: Ledger = field(default_factory=Ledger)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        work: list[Callable[[httpx.Client, str, random.Random], None]] = [self._rate] * 3 + [
            self._sync,
            self._ask,
            self._stream,
            self._stream,
        ]
        if self.site.trains:
            work += [self._train]
        for number, client_work in enumerate(work):
            thread = threading.Thread(target=self._client, args=(client_work, f"client-{number}"), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _client(self, work: Callable[[httpx.Client, str, random.Random], None], name: str) -> None:
        headers = {"Authorization": f"Bearer {self.site.key}"}
        with httpx.Client(base_url=self.site.url, headers=headers, timeout=ANSWER_SECONDS) as client:
            work(client, name, random.Random(f"{self.seed} {name}"))

    def _rounds(self) -> Iterator[int]:
        number = 0
        while not self._stopping.is_set():
            yield number
            number += 1

    # --- the API -----------------------------------------------------------------------------------------------------

    def _send(self, client: httpx.Client, path: str, body: Any) -> Any:
        """The answer to this body, sent again until there is one; None where the test ended before."""
        until = None
        while until is None or time.monotonic() < until:
            if self._stopping.is_set() and until is None:
                until = time.monotonic() + 2
            try:
                response = client.post(path, json=body)
            except httpx.TransportError as error:
                self.ledger.statuses[type(error).__name__] += 1
            else:
                self.ledger.note(response)
                if response.is_success:
                    return response.json()
                if response.status_code < 500 and response.status_code != 429:
                    self.ledger.wrong.append(f"{path} refused: {response.status_code} {response.text[:300]}")
                    return None
            time.sleep(RETRY_SECONDS)
        return None

    def _rate(self, client: httpx.Client, name: str, draw: random.Random) -> None:
        """A new answer, then ratings of it: some again and again by the same person, who changes his mind."""
        for number in self._rounds():
            external = f"{name}-{number}"
            text = f"answer {external} " + "word " * draw.randrange(1, 40)
            stored = self._send(
                client,
                "/api/v1/traces/",
                {"agent": TRAINED, "prompt": f"question {number % 50}", "response": text, "external_id": external},
            )
            self.ledger.traces.append({"external_id": external, "response": text, "id": stored and stored["id"]})
            if stored is None:
                return
            for again in range(draw.randrange(1, 6)):
                self._say(client, stored["id"], name, (again + number) % 2)

    def _say(self, client: httpx.Client, trace: str, rater: str, value: int) -> None:
        rated_at = datetime.now(UTC).isoformat()
        body = {"trace": trace, "rater": rater, "scale": "thumb", "value": value, "rated_at": rated_at}
        answer = self._send(client, "/api/v1/feedback/", body)
        self.ledger.ratings.append({**body, "event": answer and answer["id"]})

    def _sync(self, client: httpx.Client, name: str, draw: random.Random) -> None:
        """Entries, and then many ratings of them in one call."""
        for number in self._rounds():
            entries = [f"{name}-{number}-{at}" for at in range(draw.randrange(2, 30))]
            rows = [
                {"agent": TRAINED, "prompt": f"entry {entry}", "response": "yes", "external_id": entry}
                for entry in entries
            ]
            stored = self._send(client, "/api/v1/traces/", rows)
            ids = [item.get("id") for item in stored["results"]] if stored else [None] * len(rows)
            self.ledger.traces += [
                {"external_id": row["external_id"], "response": "yes", "id": id}
                for row, id in zip(rows, ids, strict=True)
            ]
            if stored is None or not all(ids):
                continue
            rated_at = datetime.now(UTC).isoformat()
            ratings = {entry: {"rating": "up", "rated_at": rated_at} for entry in entries}
            synced = self._send(client, "/api/v1/ratings/sync/", {"ratings": ratings, "device_id": name})
            self.ledger.ratings += [
                {
                    "trace": id,
                    "rater": f"device:{name}",
                    "value": 1,
                    "rated_at": rated_at,
                    "event": True if synced else None,
                }
                for id in ids
            ]

    # --- the gateway -------------------------------------------------------------------------------------------------

    def _model(self, draw: random.Random) -> str:
        return TRAINED if self.site.trains and draw.random() < 0.4 else STREAMED

    def _question(self, model: str, number: int, **more: Any) -> dict[str, Any]:
        return {
            "model": model,
            "messages": [{"role": "user", "content": f"question {number}"}],
            "max_tokens": 16,
            **more,
        }

    def _ask(self, client: httpx.Client, name: str, draw: random.Random) -> None:
        for number in self._rounds():
            body = self._question(self._model(draw), number)
            try:
                response = client.post("/v1/chat/completions", json=body)
            except httpx.TransportError as error:
                self.ledger.statuses[type(error).__name__] += 1
                time.sleep(RETRY_SECONDS)
                continue
            self.ledger.note(response)
            if response.is_success:
                document = response.json()
                self._note_answer(
                    client, name, document["id"], document["choices"][0]["message"]["content"], True, draw
                )
            time.sleep(0.05 if response.is_success else RETRY_SECONDS)

    def _stream(self, client: httpx.Client, name: str, draw: random.Random) -> None:
        for number in self._rounds():
            seen: dict[str, Any] = {"id": "", "text": "", "whole": False}
            try:
                self._read(client, self._question(self._model(draw), number, stream=True), seen)
            except httpx.TransportError as error:
                self.ledger.statuses[type(error).__name__] += 1
                time.sleep(RETRY_SECONDS)
            if seen["id"]:
                self._note_answer(client, name, seen["id"], seen["text"], seen["whole"], draw)

    def _read(self, client: httpx.Client, body: dict[str, Any], seen: dict[str, Any]) -> None:
        with client.stream("POST", "/v1/chat/completions", json=body) as response:
            if not response.is_success:
                response.read()
                self.ledger.note(response)
                time.sleep(RETRY_SECONDS)
                return
            self.ledger.statuses["stream"] += 1
            for line in response.iter_lines():
                if line == "data: [DONE]":
                    seen["whole"] = True
                elif line.startswith("data: "):
                    piece = json.loads(line[6:])
                    seen["id"] = piece.get("id") or seen["id"]
                    for choice in piece.get("choices", ()):
                        seen["text"] += choice["delta"].get("content") or ""

    def _note_answer(
        self, client: httpx.Client, name: str, id: str, text: str, whole: bool, draw: random.Random
    ) -> None:
        """Some are rated at once, by the id that the client was given."""
        self.ledger.answers.append({"id": id, "text": text, "whole": whole})
        if whole and draw.random() < 0.3:
            self._say(client, id, name, draw.randrange(2))

    # --- trainings ---------------------------------------------------------------------------------------------------

    def _train(self, client: httpx.Client, name: str, draw: random.Random) -> None:
        """One after the other: 409 as long as one is at work."""
        while not self._stopping.wait(1.0):
            try:
                response = client.post(
                    f"/api/policies/train_policy/{TRAINED}/", json={"maxSteps": TRAIN_STEPS, "method": "dpo"}
                )
            except httpx.TransportError as error:
                self.ledger.statuses[type(error).__name__] += 1
                continue
            if response.status_code != 409:
                self.ledger.note(response)
            if response.status_code == 202:
                self.ledger.runs.append({"id": int(response.json()["runUrl"].rstrip("/").split("/")[-1])})
