import json
import uuid
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from rl.models import Agent, AuditEvent, Feedback, Invite, RatingQueue
from rl.queues import editing
from tests.conftest import make_trace

ADDRESS = "/rate/support-chat/experts/"


@pytest.fixture
def invite(agent: Agent) -> Invite:
    make_trace(agent)
    queue = RatingQueue.objects.create(agent=agent, name="experts")
    return editing.invite(queue, "Dr. Dora")


def link(invite: Invite) -> str:
    return f"/rate/by/{editing.token_of(invite)}/"


def test_an_invited_expert_rates_one_queue_and_sees_nothing_else(client: Client, invite: Invite) -> None:
    assert client.post(link(invite))["Location"] == ADDRESS
    page = client.get(ADDRESS)
    assert page.context["filters"] == []
    client.post(ADDRESS, {"claim": page.context["items"][0]["claim"], "value": "1"})
    event = Feedback.objects.get()
    assert (event.rater, event.user, event.value) == (f"invite:{invite.pk}", None, 1.0)
    assert AuditEvent.objects.get().action == AuditEvent.Action.INVITED
    for address in ("/", "/rate/", "/traces/", "/try/", "/admin/"):
        assert client.get(address).status_code == 302, address
    other = client.get("/rate/support-chat/")
    assert other.status_code == 403
    assert f'href="{ADDRESS}"' in other.content.decode()
    assert RatingQueue.objects.count() == 1


@pytest.mark.database
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"revoked_at": timezone.now()}, "taken back"),
        ({"expires_at": timezone.now() - timedelta(days=1)}, "ended on"),
    ],
)
def test_a_link_that_is_over_says_so_wherever_it_is_used(
    client: Client, invite: Invite, change: dict, words: str
) -> None:
    client.post(link(invite))
    claim = client.get(ADDRESS).context["items"][0]["claim"]
    Invite.objects.update(**change)
    for address in (link(invite), ADDRESS):
        answer = client.get(address)
        assert (answer.status_code, words in answer.content.decode()) == (403, True)
    decision = {"id": str(uuid.uuid4()), "claim": claim, "action": "rate", "value": 1}
    body = json.dumps({"decisions": [decision]})
    answer = client.post(f"{ADDRESS}decisions/", body, content_type="application/json")
    assert answer.status_code == 403
    assert words in answer.json()["error"]
    assert not Feedback.objects.exists()


def test_a_link_that_somebody_made_up_opens_nothing(client: Client, invite: Invite) -> None:
    answer = client.get(f"/rate/by/{invite.pk}:abc/")
    assert answer.status_code == 404
    assert "opens nothing" in answer.content.decode()


def test_a_preview_of_the_link_does_not_use_it_up(client: Client, invite: Invite) -> None:
    preview = Client(headers={"user-agent": "SkypeUriPreview"})
    for method in (preview.head, preview.get):
        seen = method(link(invite))
        assert (seen.status_code, seen.cookies.keys()) == (200, {"csrftoken"} & seen.cookies.keys())
        invite.refresh_from_db()
        assert (invite.device, invite.last_used_at) == ("", None)
    assert ">Begin</button>" in client.get(link(invite)).content.decode()
    assert client.get(ADDRESS).status_code == 302
    assert client.post(link(invite))["Location"] == ADDRESS
    assert client.get(ADDRESS).status_code == 200
    assert client.get(link(invite))["Location"] == ADDRESS


def test_a_second_browser_takes_over_and_the_first_is_told(client: Client, invite: Invite) -> None:
    second = Client()
    client.post(link(invite))
    item = client.get(ADDRESS).context["items"][0]
    asked = second.get(link(invite))
    assert (asked.status_code, "Continue here" in asked.content.decode()) == (409, True)
    assert client.get(ADDRESS).status_code == 200
    assert second.post(link(invite))["Location"] == ADDRESS
    assert second.get(ADDRESS).context["items"][0]["claim"] == item["claim"]
    refused = client.get(ADDRESS)
    assert (refused.status_code, "Nothing that you have rated here is lost" in refused.content.decode()) == (403, True)


def test_a_rater_of_the_site_rates_as_himself(client: Client, alice, invite: Invite) -> None:
    client.force_login(alice)
    client.get(link(invite))
    client.post(ADDRESS, {"claim": client.get(ADDRESS).context["items"][0]["claim"], "value": "1"})
    assert Feedback.objects.get().rater == "user:alice"


@pytest.mark.parametrize(
    ("rubric", "asked"), [("pair", "which of two answers is better"), ("edit", "should have been")]
)
def test_a_guest_is_told_what_is_good_before_he_begins(client: Client, invite: Invite, rubric: str, asked: str) -> None:
    Agent.objects.update(description="Answers customers of a <shop>.")
    RatingQueue.objects.update(rubric=rubric, instructions="It names a day.\n\nIt is <b>polite</b>.")
    text = client.get(link(invite)).content.decode()
    for words in (asked, "What is good", "It names a day.", "It is &lt;b&gt;polite&lt;/b&gt;.", "of a &lt;shop&gt;."):
        assert words in text
