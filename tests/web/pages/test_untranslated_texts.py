"""Pages are drawn in a language that does not exist, in which each translated text stands in ⟦ ⟧. What stands outside is
data, or nobody can translate it."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.template.loader import render_to_string
from django.test import Client
from django.utils import timezone, translation
from django.utils.safestring import SafeData, mark_safe

from rl.faults import DATABASE_GONE, DISK_FULL
from rl.models import Agent, Claim, Deployment, Experiment, Invite, ModelVersion, RatingQueue, Trace, TrainingRun
from rl.queues import editing
from tests.admin.records import make_loop
from tests.conftest import make_trace

DATA = re.compile(
    r"""\b(?:support-chat|queue-\d|answers|pairs|labels|v\d+|bob|alice|Charlie|Ratchet|UTC|tiny|api|dpo|cpu|epochs|lora_r
    |question|answer|other|experiment|English|Deutsch|Español|user:\w+|device:\d+|system|assistant|user|chosen|rejected|auto|default|production|smollm2|\w+_\w+|grpo|kto|mpo|ppo
    |reward_model|cores|search|task|key|GGUF|[0-9a-f]{8})\b""",
    re.VERBOSE,
)
"""Names and texts of the rows that the pages show, names of settings and of this product."""
STORED = (
    "40 ratings in 5 seconds",  # why feedback is held back
    "A draft",  # experiments are told of in the words of their record
    "Does v1 have a higher",
    "It has not started.",
    "Rated users",
    "No queue has ever run here",  # commands say these too
    "1 accepted answer, and 8 tell",
    "9 more rated answers",
    "rated answers, picks and corrections",
    "answers are free",
    "Where is my parcel?",
    "On its way.",
)
"""Texts that were made when something happened, are kept, or are what commands print: English everywhere."""
UNSPOKEN = ("script", "style", "code", "pre", "kbd", "q", "textarea")
"""Elements with data, names and keys in them."""
SPOKEN = ("aria-label", "title", "placeholder", "alt")
WORD = re.compile(r"[A-Za-z]{2,}")


def in_brackets(text: str) -> str:
    return mark_safe(f"⟦{text}⟧") if isinstance(text, SafeData) else f"⟦{text}⟧"


@pytest.fixture
def brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    functions: Any = translation._trans  # type: ignore[attr-defined]
    monkeypatch.setattr(functions, "gettext", in_brackets, raising=False)
    monkeypatch.setattr(
        functions, "ngettext", lambda one, many, number: in_brackets(one if number == 1 else many), raising=False
    )


class Outside(HTMLParser):
    """Collects what stands outside of brackets, a list of pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._depth = 0
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in SPOKEN and value and tag not in ("dt", "label"):  # there it is the name that programs use
                self._read(value, 0)
        if tag in UNSPOKEN:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if not self._open:
            self._depth = self._read(data, self._depth)

    def _read(self, text: str, depth: int) -> int:
        outside = ""
        for character in text:
            depth += {"⟦": 1, "⟧": -1}.get(character, 0)
            outside += character if depth == 0 and character != "⟧" else " "
        self.pieces += [piece.strip() for piece in re.split(r"\s{2,}", outside) if WORD.search(piece)]
        return depth


def outside(page: str) -> list[str]:
    reader = Outside()
    reader.feed(page)
    pieces = [piece for piece in reader.pieces if not piece.startswith(STORED)]
    return sorted({piece for piece in pieces if WORD.search(DATA.sub("", piece))})


def look_at(client: Client, paths: list[str]) -> dict[str, list[str]]:
    """What is not translated, by page."""
    pages = {path: client.get(path) for path in paths}
    assert {path: page.status_code for path, page in pages.items() if page.status_code == 500} == {}
    return {path: texts for path, page in pages.items() if (texts := outside(page.content.decode()))}


@pytest.fixture
def loop(agent: Agent, data_dir: Path, brackets: None) -> Agent:
    """With a row in every table."""
    make_loop(agent)
    return agent


def test_what_stands_outside_of_brackets_is_noticed() -> None:
    page = '<p>⟦all <b>of it</b>⟧ <i title="a word">and</i> more</p><code>none of this</code>'
    assert outside(page) == ["a word", "and", "more"]


def test_pages_for_raters_are_translated(staff: Client, loop: Agent) -> None:
    claim, trace = Claim.objects.get(), Trace.objects.exclude(model_version=None).get()
    Claim.objects.update(rater="user:bob")
    paths = ["/try/", f"/try/{loop.name}/", "/rate/", "/rate/held-back/", f"/try/{loop.name}/before-and-after/"]
    paths += [f"/rate/{loop.name}/queue-1/{part}" for part in ("", "settings/", "raters/", f"items/{claim.pk}/")]
    paths += [
        f"/rate/{loop.name}/+/settings/",
        f"/rate/{loop.name}/",
        f"/rate/{loop.name}/pairs/",
        f"/traces/{trace.pk}/",
    ]
    assert look_at(staff, paths) == {}


@pytest.mark.parametrize("rubric", RatingQueue.Rubric.values)
def test_each_kind_of_rating_is_translated(staff: Client, loop: Agent, rubric: str) -> None:
    RatingQueue.objects.update(rubric=rubric, instructions="")
    for _ in range(2):  # the second shows what was decided
        assert look_at(staff, [f"/rate/{loop.name}/queue-1/"]) == {}
        item = staff.get(f"/rate/{loop.name}/queue-1/").context["items"]
        staff.post(f"/rate/{loop.name}/queue-1/", {"action": "skip", "claim": item[0]["claim"] if item else ""})


def test_pages_for_staff_are_translated(staff: Client, loop: Agent) -> None:
    experiment, run, version = Experiment.objects.get(), TrainingRun.objects.get(), ModelVersion.objects.get()
    paths = ["/traces/", f"/traces/?agent={loop.name}&find=x&since=2026-01-01", "/experiments/", "/runs/", "/runs/new/"]
    paths += [f"/experiments/{experiment.pk}/", f"/experiments/versions/{loop.name}/", f"/runs/{run.pk}/"]
    paths += [f"/runs/{run.pk}/rows/", f"/runs/compare/?run={run.pk}", f"/versions/{loop.name}/{version.name}/"]
    paths += ["/agents/?find=nobody", f"/runs/plan/rows/?agent={loop.name}"]
    assert look_at(staff, paths) == {}


def test_pages_about_an_agent_are_translated(staff: Client, loop: Agent) -> None:
    paths = ["/", f"/agents/{loop.name}/", f"/traces/of/{loop.name}/"]
    assert look_at(staff, paths) == {}
    Deployment.objects.update(alias="champion")
    assert look_at(staff, paths) == {}


def test_pages_without_a_row_are_translated(staff: Client, brackets: None, data_dir: Path) -> None:
    paths = [
        "/",
        "/try/",
        "/rate/",
        "/traces/",
        "/runs/",
        "/runs/new/",
        "/agents/",
        "/experiments/",
        "/rate/held-back/",
    ]
    assert look_at(staff, paths) == {}


def test_pages_for_strangers_are_translated(client: Client, agent: Agent, alice: User, brackets: None) -> None:
    make_trace(agent)
    invite = editing.invite(RatingQueue.objects.create(agent=agent, name="queue-1"), "Charlie")
    link = f"/rate/by/{editing.token_of(invite)}/"
    assert look_at(client, ["/login/", "/nowhere/", link, "/rate/by/1:1/"]) == {}
    client.post(link)
    assert look_at(client, [f"/rate/{agent.name}/queue-1/", f"/rate/{agent.name}/"]) == {}
    Invite.objects.update(revoked_at=timezone.now())
    assert look_at(client, [link]) == {}
    client.force_login(alice)
    assert look_at(client, ["/runs/", "/traces/"]) == {}


def test_pages_about_faults_are_translated(client: Client, db: None, brackets: None) -> None:
    for fault in (DISK_FULL, DATABASE_GONE):
        assert outside(render_to_string("rl/fault.html", {"fault": fault})) == []
    assert outside(render_to_string("429.html", {"minutes": 2, "ends": timezone.now()})) == []
