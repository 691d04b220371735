import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from rl.models import Agent, AuditEvent, Invite, Quarantine, RatingQueue
from rl.trust import quarantine
from tests.conftest import make_trace
from tests.trust.test_quarantine import rate_quickly
from tests.trust.test_reading import decide
from tests.trust.test_reading import test_picks_between_a_version_and_the_base_model_make_a_table as make_picks

pytestmark = pytest.mark.django_db

NEW = "/rate/support-chat/+/settings/"
ADDRESS = "/rate/support-chat/experts/settings/"
FIELDS = {
    "name": "experts",
    "rubric": "stars",
    "order": "random",
    "lock_seconds": "300",
    "gold_share": "5",
    "repeat_share": "7",
    "tags": "legal, medical",
    "rated": "no",
    "since": "2026-01-31",
    "with_tags": "wrong, odd",
    "details": '{"category": "energy"}',
}


@pytest.mark.database
def test_staff_makes_changes_and_closes_a_queue(staff: Client, agent: Agent) -> None:
    assert staff.get(NEW).context["form"]["details"].value() == ""
    assert staff.post(NEW, FIELDS)["Location"] == ADDRESS
    queue = RatingQueue.objects.get()
    assert (queue.tags, queue.rubric, queue.gold_share, queue.repeat_share) == (
        ["legal", "medical"],
        "stars",
        0.05,
        0.07,
    )
    assert queue.filters == {
        "rated": False,
        "from": "2026-01-31",
        "tags": ["wrong", "odd"],
        "details": {"category": "energy"},
    }
    shown = staff.get(ADDRESS).context["form"]
    again = {name: shown[name].value() for name in (*FIELDS, "until", "sources", "versions", "search")}
    assert {name: value for name, value in again.items() if value} == FIELDS | {"lock_seconds": 300}
    assert staff.post(ADDRESS, {**FIELDS, "closed": "on"})["Location"] == ADDRESS
    queue.refresh_from_db()
    assert queue.closed_at is not None
    assert AuditEvent.objects.filter(target="rating queue experts").count() == 3


def test_a_comma_or_a_quotation_mark_within_a_tag_is_kept(staff: Client, agent: Agent) -> None:
    staff.post(NEW, {**FIELDS, "tags": 'legal, "wrong, or odd", 19" rack'})
    queue = RatingQueue.objects.get()
    assert queue.tags == ["legal", "wrong, or odd", '19" rack']
    shown = staff.get(ADDRESS).context["form"]["tags"].value()
    staff.post(ADDRESS, {**FIELDS, "tags": shown})
    queue.refresh_from_db()
    assert (shown, queue.tags) == ('legal, "wrong, or odd", "19"" rack"', ["legal", "wrong, or odd", '19" rack'])


@pytest.mark.database
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"details": "{"}, "Enter a valid JSON."),
        ({"details": "[1]"}, "filters.details: an object of 1 to 50 values"),
        ({"versions": "base, v9"}, "has no version v9"),
        ({"since": "soon"}, "Enter a valid date."),
        ({"since": "2026-02-01", "until": "2026-01-31"}, "is later than to"),
        ({"search": "x" * 201}, "at most 200 characters"),
        ({"rated": "perhaps"}, "not one of the available choices"),
        ({"gold_share": "90"}, "less than or equal to 50"),
        ({"name": "a/b"}, "queue name"),
        ({"tags": "x" * 51}, "tags: at most"),
    ],
)
def test_what_cannot_be_is_refused_in_words(staff: Client, agent: Agent, fields: dict[str, str], words: str) -> None:
    answer = staff.post(NEW, {**FIELDS, **fields})
    assert answer.status_code == 400
    assert words in answer.content.decode()
    assert not RatingQueue.objects.exists()


@pytest.mark.database
def test_the_rubric_stays_once_somebody_has_rated(staff: Client, agent: Agent) -> None:
    make_trace(agent)
    of_all = {**FIELDS, **dict.fromkeys(("rated", "since", "with_tags", "details"), "")}
    staff.post(NEW, of_all)
    assert RatingQueue.objects.get().filters == {}
    staff.get("/rate/support-chat/experts/")
    assert "make another queue" in staff.post(ADDRESS, {**of_all, "rubric": "thumbs"}).content.decode()


def test_staff_invites_and_takes_back(staff: Client, agent: Agent) -> None:
    staff.post(NEW, FIELDS)
    assert staff.post(ADDRESS, {"action": "invite", "guest": "Dr. Dora", "days": "7"}).status_code == 302
    invite = Invite.objects.get()
    assert invite.created_by == "user:bob"
    assert "http://testserver/rate/by/" in staff.get(ADDRESS).content.decode()
    assert staff.post(ADDRESS, {"action": "revoke", "invite": invite.pk}).status_code == 302
    assert "http://testserver/rate/by/" not in staff.get(ADDRESS).content.decode()
    assert "whom it is for" in staff.post(ADDRESS, {"action": "invite", "guest": "", "days": "7"}).content.decode()


@pytest.mark.database
@pytest.mark.parametrize(
    ("site", "host", "begins", "is_local"),
    [
        ("https://ratchet.example", "127.0.0.1", "https://ratchet.example/rate/by/", False),
        ("http://127.0.0.1:8000", "192.168.1.7:8000", "http://192.168.1.7:8000/rate/by/", False),
        ("http://127.0.0.1:8000", "localhost:8123", "http://localhost:8123/rate/by/", True),
    ],
)
def test_an_invitation_has_the_address_that_others_would_type(
    staff: Client, agent: Agent, settings, site: str, host: str, begins: str, is_local: bool
) -> None:
    settings.SITE_URL, settings.ALLOWED_HOSTS = site, ["*"]
    staff.post(NEW, FIELDS)
    staff.post(ADDRESS, {"action": "invite", "guest": "Dr. Dora", "days": "7"})
    page = staff.get(ADDRESS, headers={"host": host})
    assert page.context["invites"][0]["link"].startswith(begins)
    assert ("open on this machine only" in page.content.decode()) == is_local


@pytest.fixture
def held(agent: Agent) -> Quarantine:
    rate_quickly(agent, rater="<b>robot")
    [row] = quarantine.look()
    return row


def test_the_raters_of_a_queue_have_their_figures(staff: Client, agent: Agent):
    queue = RatingQueue.objects.create(agent=agent, name="Returns")
    trace = make_trace(agent)
    decide(queue, trace, "user:alice", {"value": 1.0})
    decide(queue, trace, "<b>dora", {"value": 0.0})
    text = staff.get("/rate/support-chat/returns/raters/").content.decode()
    assert "&lt;b&gt;dora" in text
    assert f"/traces/{trace.pk}/" in text
    assert "1 item decided, 1 by two or more" in text
    assert staff.get("/rate/support-chat/other/raters/").status_code == 404


@pytest.mark.database
def test_what_is_held_back_stands_there_with_its_reason_and_is_released(staff: Client, held: Quarantine):
    text = staff.get("/rate/held-back/").content.decode()
    assert "60 decisions within 20 seconds" in text
    assert "&lt;b&gt;robot" in text
    assert staff.post("/rate/held-back/", {"quarantine": held.pk, "action": "keep"}).status_code == 302
    assert "bob has looked" in staff.get("/rate/held-back/").content.decode()
    assert staff.post("/rate/held-back/", {"quarantine": held.pk, "action": "release"}).status_code == 302
    held.refresh_from_db()
    assert held.released_by == "bob"
    assert AuditEvent.objects.get(action="released").actor == "user:bob"
    assert "Nothing is held back" in staff.get("/rate/held-back/").content.decode()
    answer = staff.post("/rate/held-back/", {"quarantine": held.pk, "action": "release"})
    assert (answer.status_code, "released before" in answer.content.decode()) == (400, True)


@pytest.mark.parametrize(
    "fields", [{}, {"quarantine": "²"}, {"quarantine": "9" * 40}, {"quarantine": "1", "action": "x"}]
)
def test_what_cannot_be_decided_is_said(staff: Client, fields: dict):
    answer = staff.post("/rate/held-back/", fields)
    assert (answer.status_code, "open the page again" in answer.content.decode()) == (400, True)


def test_versions_have_a_table(staff: Client, agent: Agent):
    assert "Nothing to compare yet" in staff.get("/experiments/versions/support-chat/").content.decode()
    make_picks(agent)
    assert "Wins against the base model" in staff.get("/experiments/versions/support-chat/").content.decode()


def test_looking_and_releasing_are_two_permissions(client: Client, held: Quarantine):
    dora = User.objects.create_user("dora", is_staff=True)
    dora.user_permissions.add(Permission.objects.get(codename="view_quarantine"))
    client.force_login(dora)
    assert "Release" not in client.get("/rate/held-back/").content.decode()
    assert client.post("/rate/held-back/", {"quarantine": held.pk, "action": "release"}).status_code == 403
