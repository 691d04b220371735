"""Eight people and programs that use the site as they should, each from an address of its own, while others attack it."""

import itertools
import json
import random
import re
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
from crash_load import Ledger
from crash_site import TRAINED
from hostile_site import PAGES, PEOPLE, SHOP, HostileSite

GIVE_UP_SECONDS = 120.0
AGAIN = (429, 503)
"""A client that is told so comes again after the pause that it is told; what it waited for counts as one request."""
PAUSE = (0.2, 0.8)
CSRF = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
CLAIM = re.compile(r'"claim": (\d+)')


@dataclass
class User:
    """One client; ``seconds`` has how long each of his requests took, by what it was."""

    site: HostileSite
    name: str
    address: str
    headers: dict[str, str] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    again: int = 0
    """Times that he was told to come again."""

    def __post_init__(self) -> None:
        self.draw = random.Random(self.name)
        self.connect(self.address)

    def connect(self, address: str) -> None:
        transport = httpx.HTTPTransport(local_address=address)
        self.client = httpx.Client(
            base_url=self.site.url, headers=self.headers, timeout=GIVE_UP_SECONDS, transport=transport
        )

    def ask(self, what: str, method: str, path: str, **more: Any) -> httpx.Response | None:
        """The answer, after as many tries as it takes; None, and a problem noted, where there is none."""
        begun = time.monotonic()
        while True:
            try:
                answer = self.client.request(method, path, **more)
            except httpx.TransportError as error:
                self.problems.append(
                    f"{self.name}: {what}: {type(error).__name__} after {time.monotonic() - begun:.1f} s"
                )
                return None
            if answer.status_code not in AGAIN or time.monotonic() - begun > GIVE_UP_SECONDS:
                break
            self.again += 1
            time.sleep(min(5.0, float(answer.headers.get("retry-after", "1"))))
        self.seconds.setdefault(what, []).append(time.monotonic() - begun)
        if answer.is_error:
            self.problems.append(f"{self.name}: {what} answered {answer.status_code}: {answer.text[:200]!r}")
            return None
        return answer

    def note_rating(self, trace: str, rater: str, value: float, event: object) -> None:
        now = time.time()
        self.ledger.ratings.append({"trace": trace, "rater": rater, "value": value, "rated_at": now, "event": event})

    def sign_in(self) -> None:
        self.client.cookies.delete("sessionid")
        if (page := self.ask("the sign-in page", "GET", "/login/")) is None:
            return
        form = {"username": self.name, "password": PEOPLE[self.name], "csrfmiddlewaretoken": token_in(page.text)}
        answer = self.ask("signing in", "POST", "/login/", data=form)
        if answer is not None and answer.status_code != 302:
            self.problems.append(f"{self.name}: could not sign in")


def token_in(page: str) -> str:
    return (CSRF.search(page) or [""] * 2)[1]


# --- what each does in one round --------------------------------------------------------------------------------------


class Shared(list[dict[str, str]]):
    """The newest traces that the app stored, which its pages show: id, external id and token."""


def app(user: User, shared: Shared, number: int) -> None:
    external = f"honest-{number}"
    body = {
        "agent": TRAINED,
        "prompt": f"question {number % 50}",
        "response": f"answer {external}",
        "external_id": external,
    }
    if (answer := user.ask("storing an answer", "POST", "/api/v1/traces/", json=body)) is None:
        return
    stored = answer.json()
    user.ledger.traces.append({"external_id": external, "response": body["response"], "id": stored["id"]})
    shared.append({"trace": stored["id"], "entry": external, "token": stored.get("token", "")})
    del shared[:-50]


def shopper(user: User, shared: Shared, number: int) -> None:
    """Each a customer with a name and an address of his own, as each browser has one."""
    if not shared:
        return
    user.connect(f"127.0.1.{number % 250 + 1}")
    shown, rater = user.draw.choice(shared), f"customer-{number}"
    body = {"trace": shown["trace"], "rater": rater, "scale": "thumb", "value": number % 2}
    answer = user.ask("a rating of the widget", "POST", "/api/v1/feedback/", json=body)
    user.note_rating(shown["trace"], f"device:{rater}", number % 2, answer and answer.json()["id"])


def token_shopper(user: User, shared: Shared, number: int) -> None:
    """Rates each answer once, with its token."""
    if not shared or shared[-1]["trace"] in {row["trace"] for row in user.ledger.ratings[-50:]}:
        return
    user.connect(f"127.0.2.{number % 250 + 1}")
    shown, rater = shared[-1], f"holder-{number}"
    body = {"trace": shown["trace"], "rater": rater, "scale": "stars", "value": 5, "token": shown["token"]}
    answer = user.ask("a rating with a token", "POST", "/api/v1/feedback/", json=body)
    user.note_rating(shown["trace"], f"device:{rater}", 1, answer and answer.json()["id"])


def command_center(user: User, shared: Shared, number: int) -> None:
    if not shared:
        return
    shown, device = user.draw.choice(shared), f"tablet-{number}"
    body = {"entry_id": shown["entry"], "rating": "up", "tags": [], "notes": "", "device_id": device}
    body["rated_at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    answer = user.ask("a thumb of Command Center", "POST", "/api/ratings/", json=body)
    user.note_rating(shown["trace"], f"device:{device}", 1, answer and True)


def rate_at(user: User, address: str) -> None:
    """Opens the page and decides what it shows first."""
    if (page := user.ask("the rating page", "GET", address)) is None or not (claim := CLAIM.search(page.text)):
        return
    decision = {"id": str(uuid.uuid4()), "claim": int(claim[1]), "action": "rate", "value": 1}
    headers = {"X-CSRFToken": user.client.cookies.get("csrftoken", "")}
    body = {"decisions": [decision], "holding": [], "want": 3}
    answer = user.ask("a decision", "POST", f"{address.partition('?')[0]}decisions/", json=body, headers=headers)
    if answer is not None and (error := answer.json()["results"][0]["error"]):
        user.problems.append(f"{user.name}: the decision was refused: {error}")
    elif answer is not None:
        user.ledger.statuses["decisions"] += 1


def alice(user: User, shared: Shared, number: int) -> None:
    if number == 0:
        user.sign_in()
    rate_at(user, f"/rate/{TRAINED}/answers/")


def dora(user: User, shared: Shared, number: int) -> None:
    """Invited by a link."""
    if number == 0:
        link = f"/rate/by/{user.site.secrets['dora']}/"
        if (page := user.ask("the invitation", "GET", link)) is None:
            return
        user.ask("beginning", "POST", link, data={"csrfmiddlewaretoken": token_in(page.text)})
    rate_at(user, f"/rate/{TRAINED}/experts/")


def bob(user: User, shared: Shared, number: int) -> None:
    """Signs in anew in every tenth round; the site knows his browser."""
    pages = ["/", "/agents/", "/traces/", f"/agents/{TRAINED}/", "/runs/", "/traces/?q=question", "/healthz"]
    if number % 10 == 0:
        user.sign_in()
    page = pages[number % len(pages)]
    user.ask(f"page {page}", "GET", page, follow_redirects=True)


def asker(user: User, shared: Shared, number: int) -> None:
    model = user.site.models[number % len(user.site.models)]
    body = {"model": model, "messages": [{"role": "user", "content": f"question {number}"}], "max_tokens": 8}
    server = "llama.cpp" if model == TRAINED else "a model server"
    if (answer := user.ask(f"an answer of {server}", "POST", "/v1/chat/completions", json=body)) is None:
        return
    document = answer.json()
    text = document["choices"][0]["message"]["content"]
    user.ledger.answers.append({"id": document["id"], "text": text, "whole": True})


WORK: dict[Callable[[User, Shared, int], None], dict[str, str]] = {
    app: {"key": "app"},
    shopper: {"key": "shop", "origin": SHOP},
    token_shopper: {"key": "tokens", "origin": SHOP},
    command_center: {"origin": PAGES},
    alice: {},
    dora: {},
    bob: {},
    asker: {"key": "asker"},
}


@dataclass
class Honest:
    site: HostileSite
    users: list[User] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        shared = Shared()
        for number, (work, has) in enumerate(WORK.items()):
            headers = {"Authorization": f"Bearer {self.site.secrets[has['key']]}"} if "key" in has else {}
            headers |= {"Origin": has["origin"]} if "origin" in has else {}
            user = User(self.site, work.__name__, f"127.0.0.{10 + number}", headers)
            self.users.append(user)
            self._threads.append(threading.Thread(target=self._run, args=(user, work, shared), daemon=True))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _run(self, user: User, work: Callable[[User, Shared, int], None], shared: Shared) -> None:
        for number in itertools.count():
            if self._stopping.wait(user.draw.uniform(*PAUSE)):
                return
            try:
                work(user, shared, number)
            except (KeyError, IndexError, json.JSONDecodeError, TypeError) as error:
                user.problems.append(f"{user.name}: an answer that is not as documented: {error!r}")

    def ledger(self) -> Ledger:
        together = Ledger()
        for user in self.users:
            together.traces += user.ledger.traces
            together.ratings += user.ledger.ratings
            together.answers += user.ledger.answers
        return together

    def seconds(self) -> dict[str, list[float]]:
        """Of all requests, by what they were."""
        merged: dict[str, list[float]] = {}
        for user in self.users:
            for what, values in user.seconds.items():
                merged.setdefault(what, []).extend(values)
        return merged
