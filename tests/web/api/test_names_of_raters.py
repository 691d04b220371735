"""Whichever way a rating comes: its rater's name is one line, and not one that this site gives."""

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.http import HttpResponse
from django.test import Client

from rl.base.errors import UsageError
from rl.collect.feedback import waiting, write
from rl.collect.feedback.imported_feedback import RatingMemory, store_feedback
from rl.collect.importers.report import ImportCount
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace
from rl.collect.traces.rows import Taken
from rl.models import Agent, Feedback, Trace, WaitingRating
from tests.collect.otlp.make_spans import body as spans
from tests.collect.otlp.make_spans import chat, evaluation, span
from tests.web.api.conftest import Caller, assert_problem

pytestmark = pytest.mark.django_db
UNSEEN = ["\n", "\r", "\t", "\x00", "\x1b", "\x7f", "\x85", "\u2028", "\u2029", "\u202e", "\u2066"]
PAGE = "http://localhost:3100"
THUMB = {"rating": "up", "rated_at": "2026-02-01T12:46:57Z"}
DECISION = {"agentType": "FILER", "id": "d1", "state": 1, "action": 2, "userFeedback": "CONFIRMED"}
Way = Callable[[Caller, Trace, str], HttpResponse]


def page(path: str, body: Any) -> HttpResponse:
    return Client(headers={"origin": PAGE}).post(path, json.dumps(body), content_type="application/json")


def rating(trace: Trace, name: str) -> dict[str, Any]:
    return {"trace": str(trace.pk), "rater": name, "scale": "thumb", "value": 1}


def comparison(trace: Trace, name: str) -> dict[str, Any]:
    return {"kind": "comparison", "trace": str(trace.pk), "other_trace": str(uuid4()), "choice": "left", "rater": name}


WAYS: dict[str, Way] = {
    "a rating": lambda server, trace, name: server.post("/api/v1/feedback/", rating(trace, name)),
    "a comparison": lambda server, trace, name: server.post("/api/v1/feedback/", comparison(trace, name)),
    "a line of many": lambda server, trace, name: server.raw(
        "/api/v1/feedback/", json.dumps(rating(trace, name)), "application/x-ndjson"
    ),
    "a retraction": lambda server, trace, name: server.post(
        "/api/v1/feedback/retract/", {"trace": str(trace.pk), "rater": name}
    ),
    "a device's": lambda server, trace, name: server.post(
        "/api/v1/ratings/", {**THUMB, "entry_id": "e1", "device_id": name}
    ),
    "many of a device": lambda server, trace, name: server.post(
        "/api/v1/ratings/sync/", {"ratings": {"e1": THUMB}, "device_id": name}
    ),
    "a page's": lambda server, trace, name: page("/api/ratings/", {**THUMB, "entry_id": "e1", "device_id": name}),
    "a page's that waits": lambda server, trace, name: page(
        "/api/ratings/", {**THUMB, "entry_id": "later", "device_id": name}
    ),
    "many of a page": lambda server, trace, name: page(
        "/api/ratings/bulk/", {"ratings": {"e1": THUMB, "later": THUMB}, "device_id": name}
    ),
    "of a decision": lambda server, trace, name: server.post("/api/decisions/", {**DECISION, "userId": name}),
    "on a decision": lambda server, trace, name: server.post(
        "/api/decisions/e1/feedback/", {"userFeedback": "CONFIRMED", "userId": name}
    ),
}


@pytest.fixture
def entry(agent: Agent, settings) -> Trace:
    settings.COMMAND_CENTER_ORIGINS = {PAGE: ""}
    prompt = [{"role": "user", "content": "?"}]
    return Trace.objects.create(agent=agent, prompt=prompt, response="!", external_id="e1", action=1, state=1)


def names() -> set[str]:
    return {name for model in (Feedback, WaitingRating) for name in model.objects.values_list("rater", flat=True)}


@pytest.mark.parametrize("way", WAYS)
def test_no_name_has_a_line_break_or_what_cannot_be_seen(server: Caller, entry: Trace, way: str):
    """At the end, where white space may be cut off, it is, or the name is refused."""
    for character in UNSEEN:
        response = WAYS[way](server, entry, f"an{character}na")
        status = response.json()["results"][0]["status"] if response.status_code == 207 else response.status_code
        assert status == 400, (character, response.content)
        WAYS[way](server, entry, f"anna{character}")
        assert not {each for each in names() if each.strip().rpartition(":")[2] != "anna"}
        assert not [each for each in names() if character in each]


def test_a_name_of_a_program_is_made_one_line(server: Caller, agent: Agent, secret_key: str):
    sent = spans(span(chat()), span(evaluation("Rele\nvance\u202e", 0.75), parent=1, id=2))
    response = Client().post(
        "/v1/traces",
        sent,
        content_type="application/x-protobuf",
        headers={"authorization": f"Bearer {secret_key}"},
    )
    assert response.status_code == 200
    assert names() == {"system:Rele vance"}


@pytest.mark.database
def test_in_a_file_it_is_named_and_the_rest_is_imported(entry: Trace):
    said = tuple(ImportedFeedback(kind="rating", rater=name, scale="thumb", value=1) for name in ("an\nna", "user:ben"))
    record = ImportedTrace(where="line 1", external_id="e1", prompt=(), response="!", feedback=said)
    count = ImportCount()
    store_feedback([Taken(record, entry, "")], "test", count, RatingMemory())
    assert names() == {"user:ben"}, "whoever imports a file on the machine may name whom he likes, as an export does"
    assert "contains U+000A" in str(count.skipped)


@pytest.mark.database
def test_what_an_older_version_took_can_be_taken_back_and_what_waits_is_recorded(entry: Trace, server: Caller):
    old = write.rate(entry, rater="an na", scale="thumb", value=1, source="test").event
    Feedback.objects.update(rater="an\nna")
    old.refresh_from_db()
    assert server.post(f"/api/v1/feedback/{old.pk}/retract/").json() == {"retracted": True}
    WaitingRating.objects.create(agent=entry.agent, entry_id="e1", rater="device:b\nb", value=1, rated_at=old.rated_at)
    assert waiting.deliver([entry], "test") == 1
    assert Feedback.objects.get(is_current=True).rater == "device:b b"


@pytest.mark.parametrize(
    "name",
    ["device:anna", "DEVICE:", "  device:x", "invite:12", "Invite:1", "user:bob", "\uff44evice:x", "\u200binvite:1"],
)
@pytest.mark.parametrize("way", ["a rating", "a comparison", "a line of many", "a retraction"])
def test_a_key_does_not_name_those_whom_this_site_names(server: Caller, entry: Trace, way: str, name: str):
    response = WAYS[way](server, entry, name)
    document = response.json()["results"][0]["problem"] if response.status_code == 207 else response.json()
    assert "are given by this site" in json.dumps(document)
    assert names() == set()


def test_nor_does_it_take_back_in_their_name(server: Caller, entry: Trace):
    event = write.rate(entry, rater="invite:3", scale="thumb", value=1, source="test").event
    assert_problem(server.post(f"/api/v1/feedback/{event.pk}/retract/", {"rater": "invite:3"}), 400, "/rater")
    assert Feedback.objects.get().is_current


@pytest.mark.parametrize("way", ["of a decision", "on a decision", "a device's", "many of a page", "a rating"])
def test_other_ways_write_each_name_behind_a_prefix_of_their_own(server: Caller, shop: Caller, entry: Trace, way: str):
    caller = shop if way == "a rating" else server
    WAYS[way](caller, entry, "invite:3")
    assert names() == {("decision" if "decision" in way else "device") + ":invite:3"}


def test_a_rating_that_waits_has_a_name_that_can_be_recorded():
    with pytest.raises(UsageError, match=r"contains U\+000A"):
        waiting.Early(entry_id="x", rater="device:a\nb", value=1, rated_at=None)  # type: ignore[arg-type]
