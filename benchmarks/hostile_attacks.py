"""What attackers store and ask, each from an address of its own and as fast as it is answered.

    .venv/bin/python benchmarks/hostile_attacks.py WHERE.json SECONDS SEED [eager]

Runs in a process of its own, so that it takes no time from those who are measured. Prints how often each attack was
answered how. What it knows: an app's key that leaked and the keys of web pages, a guest's invitation, the password of
somebody who may rate and read traces. They take what the processor has left, and ``eager`` ones their share of it: on a
machine that others keep busy nothing is left, and no attack would end.
"""

import gzip
import itertools
import json
import os
import random
import socket
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from hostile_questions import questions
from hostile_texts import texts

MOST_BYTES = 1_200_000
"""A conversation: as JSON, where a line break takes two, a little less than MAX_REQUEST_BYTES."""
BLOCK = 9_900
READ_SECONDS = 30.0


@dataclass
class Attacker:
    where: dict[str, Any]
    address: str
    draw: random.Random
    deadline: float
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.client = self.new_client()

    def new_client(self, **more: Any) -> httpx.Client:
        transport = httpx.HTTPTransport(local_address=self.address)
        return httpx.Client(base_url=self.where["url"], timeout=READ_SECONDS, transport=transport, **more)

    def ask(self, attack: str, method: str, path: str, key: str = "", **more: Any) -> httpx.Response | None:
        headers = {"Authorization": f"Bearer {self.where['secrets'][key]}"} if key else {}
        try:
            answer = self.client.request(method, path, headers={**headers, **more.pop("headers", {})}, **more)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            self.counts[f"{attack}: {type(error).__name__}"] += 1
            return None
        self.counts[f"{attack}: {answer.status_code}"] += 1
        if answer.status_code == 429:  # who stays above his limit is not heard at all
            time.sleep(0.2)
        return answer

    def connect(self) -> socket.socket:
        at = urlsplit(self.where["url"])
        return socket.create_connection((at.hostname, at.port), timeout=5, source_address=(self.address, 0))

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.deadline


# --- what is stored ---------------------------------------------------------------------------------------------------


def store_texts(attacker: Attacker) -> None:
    """Long conversations of blocks that are slow to colour, under an app's name; then their readers."""
    hostile = texts(BLOCK)
    attacker.draw.shuffle(hostile)
    for start in itertools.count(0, 7):
        if attacker.is_over:
            return
        chosen = [hostile[(start + number) % len(hostile)] for number in range(MOST_BYTES // BLOCK)]
        some = attacker.draw.choice([7, 40, len(chosen) - 1])
        turns = [
            {"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(chosen[:some])
        ]
        body = {
            "agent": attacker.where["agent"],
            "prompt": [*turns, {"role": "user", "content": "and?"}],
            "response": chosen[-1],
        }
        attacker.ask("a hostile conversation", "POST", "/api/v1/traces/", "leaked", json=body)
        time.sleep(attacker.draw.uniform(0.5, 2))


def view_as_guest(attacker: Attacker) -> None:
    link = f"/rate/by/{attacker.where['secrets']['guest']}/"
    page = attacker.ask("the guest's link", "GET", link)
    token = page.text.partition('csrfmiddlewaretoken" value="')[2].partition('"')[0] if page else ""
    attacker.ask("the guest's link", "POST", link, data={"csrfmiddlewaretoken": token})
    address = f"/rate/{attacker.where['agent']}/experts/"
    while not attacker.is_over:
        attacker.ask("a guest's view", "GET", address)
        body = {"decisions": [], "holding": [], "want": 10}
        cookie = {"X-CSRFToken": attacker.client.cookies.get("csrftoken", "")}
        attacker.ask("a guest's items", "POST", f"{address}decisions/", json=body, headers=cookie)


def read_as_mallory(attacker: Attacker) -> None:
    """Searches, lists and pages of traces, by somebody with an account."""
    page = attacker.ask("mallory signs in", "GET", "/login/")
    token = page.text.partition('csrfmiddlewaretoken" value="')[2].partition('"')[0] if page else ""
    form = {"username": "mallory", "password": attacker.where["mallory"], "csrfmiddlewaretoken": token}
    attacker.ask("mallory signs in", "POST", "/login/", data=form)
    words = ["%" * 200, "_" * 200, "a" * 5_000, "\\" * 100, "(a+)+$" * 50, '"' * 300, "\x00", "e"]
    while not attacker.is_over:
        listed = attacker.ask("a search", "GET", "/traces/", params={"q": attacker.draw.choice(words)})
        addresses = set() if listed is None else {part[:36] for part in listed.text.split('href="/traces/')[1:]}
        for trace in itertools.islice((row for row in addresses if row.count("-") == 4), 5):
            attacker.ask(
                "a trace's page",
                "GET",
                f"/traces/{trace}/",
                params=attacker.draw.choice([{}, {"all": "1"}, {"whole": "1"}]),
            )
        attacker.ask("the page to talk", "GET", f"/try/{attacker.where['agent']}/")
        attacker.ask("the rating page", "GET", f"/rate/{attacker.where['agent']}/answers/")


# --- ratings ----------------------------------------------------------------------------------------------------------


def flood_ratings(attacker: Attacker) -> None:
    """Without a key: of answers that do not exist, in lists, and everything that there is to read."""
    origin = {"Origin": attacker.where["pages"]}
    for number in itertools.count():
        if attacker.is_over:
            return
        many = attacker.draw.choice([100, 500, 501, 20_000])
        rows = {f"x{number}-{row}": {"rating": "up", "tags": [], "notes": "n" * 30} for row in range(many)}
        body = {"ratings": rows, "device_id": f"d{number}"}
        attacker.ask("ratings of unknown answers", "POST", "/api/ratings/bulk/", json=body, headers=origin)
        attacker.ask("all ratings", "GET", "/api/ratings/", headers=origin)


def reuse_tokens(attacker: Attacker) -> None:
    body = {"agent": attacker.where["agent"], "prompt": "q", "response": "a"}
    stored = attacker.ask("a trace to rate", "POST", "/api/v1/traces/", "leaked", json=body)
    while not attacker.is_over and stored is not None and stored.is_success:
        rating = {"trace": stored.json()["id"], "token": stored.json().get("token", ""), "scale": "thumb", "value": 0}
        body = {**rating, "rater": uuid.uuid4().hex}
        attacker.ask(
            "one token, many names",
            "POST",
            "/api/v1/feedback/",
            "tokens",
            json=body,
            headers={"Origin": attacker.where["shop"]},
        )


# --- the gateway ------------------------------------------------------------------------------------------------------


def ask_the_gateway(attacker: Attacker) -> None:
    for number in itertools.count():
        for name, more in questions():
            if attacker.is_over:
                return
            model = attacker.where["models"][number % len(attacker.where["models"])]
            body = {"model": model, "messages": [{"role": "user", "content": "go"}], "max_tokens": 64, **more}
            attacker.ask(f"gateway, {name}", "POST", "/v1/chat/completions", "leaked", json=body)


def leave_streams(attacker: Attacker) -> None:
    """Begins many answers at once and goes away."""
    messages = [{"role": "user", "content": "write on and on"}]
    body = {"model": attacker.where["models"][-1], "messages": messages, "stream": True, "max_tokens": 4096}
    text = json.dumps(body).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {attacker.where['secrets']['leaked']}\r\nContent-Length: {len(text)}\r\n\r\n"
    ).encode()
    while not attacker.is_over:
        opened = []
        for _ in range(30):
            try:
                opened.append(connection := attacker.connect())
                connection.sendall(head + text)
            except OSError:
                attacker.counts["streams that are left: refused"] += 1
        attacker.counts["streams that are left: begun"] += len(opened)
        time.sleep(attacker.draw.uniform(0.5, 3))
        for connection in opened:
            connection.close()


# --- the doors --------------------------------------------------------------------------------------------------------


def hold_connections(attacker: Attacker) -> None:
    """Heads and bodies that come a byte at a time, and connections that say nothing."""
    begun = [
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
        b"POST /api/v1/traces/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999\r\n\r\n",
        b"",
    ]
    held: list[socket.socket] = []
    while not attacker.is_over:
        try:
            held.append(connection := attacker.connect())
            connection.sendall(attacker.draw.choice(begun))
            attacker.counts["slow connections: opened"] += 1
        except OSError:
            attacker.counts["slow connections: refused"] += 1
            time.sleep(0.2)
        for connection in list(attacker.draw.sample(held, min(5, len(held)))):
            try:
                connection.sendall(b"a")
            except OSError:
                held.remove(connection)
        time.sleep(0.02)
    for connection in held:
        connection.close()


@cache
def nonsense() -> list[bytes]:
    return [
        b"[" * 1_000_000,
        b'{"a":' * 200_000,
        b"1" * 2_000_000,
        b"1e" + b"9" * 1_000_000,
        b'{"prompt": "\\ud800"}',
        b"\x00" * 1_000,
        b'{"a": 1,' * 1_000,
        json.dumps([{"agent": "x"}] * 100_000).encode(),
        b"\xff\xfe" * 1_000,
    ]


@cache
def bomb() -> bytes:
    return gzip.compress(b"\x0a" * 200_000_000, 9)


def send_nonsense(attacker: Attacker) -> None:
    addresses = [
        "/api/v1/traces/",
        "/api/v1/feedback/",
        "/api/v1/ratings/sync/",
        "/api/v1/tokens/",
        "/v1/chat/completions",
    ]
    while not attacker.is_over:
        for address in addresses:
            headers = {"Content-Type": "application/json", "Origin": attacker.where["shop"]}
            attacker.ask(
                "nonsense",
                "POST",
                address,
                attacker.draw.choice(["leaked", "shop"]),
                content=attacker.draw.choice(nonsense()),
                headers=headers,
            )
        packed = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
        attacker.ask("a bomb of zeros", "POST", "/v1/traces", "leaked", content=bomb(), headers=packed)
        attacker.ask("a long address", "GET", "/" + "a/" * 4_000)
        attacker.ask("a long query", "GET", "/api/v1/traces/", "leaked", params={"agent": "a" * 8_000})
        attacker.ask("a file of the machine", "GET", "/static/..%2f..%2f..%2fetc/passwd")
        attacker.ask("the description", "GET", "/api/schema/", "leaked")
        attacker.ask(
            "a wrong key", "GET", "/api/v1/traces/", headers={"Authorization": f"Bearer sk_{uuid.uuid4().hex}"}
        )
        attacker.ask("a made-up link", "GET", f"/rate/by/{attacker.draw.randrange(99)}:{uuid.uuid4().hex}/")


def guess_passwords(attacker: Attacker) -> None:
    while not attacker.is_over:
        page = attacker.ask("the sign-in page", "GET", "/login/")
        token = page.text.partition('csrfmiddlewaretoken" value="')[2].partition('"')[0] if page else ""
        name = attacker.draw.choice(["bob", "alice", "admin"])
        form = {"username": name, "password": uuid.uuid4().hex, "csrfmiddlewaretoken": token}
        attacker.ask("a guessed password", "POST", "/login/", data=form)
        time.sleep(attacker.draw.uniform(1, 4))


ATTACKS: list[Callable[[Attacker], None]] = [
    store_texts,
    view_as_guest,
    read_as_mallory,
    flood_ratings,
    reuse_tokens,
    ask_the_gateway,
    leave_streams,
    hold_connections,
    send_nonsense,
    guess_passwords,
]


def take_what_is_left() -> None:
    """They would be on other machines: the processor is the site's and the honest users'. Linux weighs sessions, and then
    the processes of each, so both are told."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("19")


def main(where: dict[str, Any], seconds: float, seed: int) -> None:
    nonsense()
    bomb()  # takes seconds, of which none is the attack's
    deadline = time.monotonic() + seconds
    attackers = [
        Attacker(where, f"127.0.0.{100 + number}", random.Random(f"{seed} {attack.__name__}"), deadline)
        for number, attack in enumerate(ATTACKS)
    ]
    threads = [
        threading.Thread(target=attack, args=[attacker]) for attack, attacker in zip(ATTACKS, attackers, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(sum((attacker.counts for attacker in attackers), Counter())))


if __name__ == "__main__":
    if "eager" not in sys.argv[4:]:
        take_what_is_left()
    main(json.loads(Path(sys.argv[1]).read_text()), float(sys.argv[2]), int(sys.argv[3]))
