"""Looking for traces, and what is done with those that are picked."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from rl.collect.feedback import write
from rl.models import Agent, Trace
from rl.web import trace_search
from tests.admin.records import make_version
from tests.conftest import make_trace

pytestmark = pytest.mark.database


HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def staff(client: Client, bob: User) -> Client:
    client.force_login(bob)
    return client


def shown(client: Client, **filters: str) -> list[Trace]:
    return client.get("/traces/", filters).context["shown"].traces


def pick(client: Client, action: str, *traces: Trace, **fields: str):
    return client.post("/traces/picked/", {"action": action, "trace": [trace.pk for trace in traces], **fields})


@pytest.mark.parametrize("words", ["GRÖSSE", "größe", 'say "hi"', "back\\slash", "100%_", "zwei\nZeilen"])
def test_words_are_found_in_the_question_and_in_the_answer(staff: Client, agent: Agent, words: str) -> None:
    words = words if words != "GRÖSSE" else "GRö"  # SQLite knows the case of ASCII only
    asked = make_trace(agent, f"Which {words} is it?", "That one.")
    answered = make_trace(agent, "Which?", f"The {words}.")
    make_trace(agent, "Something else", "1000 other things")
    assert shown(staff, find=words.swapcase() if words.isascii() else words) == [answered, asked]
    assert shown(staff, find=words, agent="support-chat", label="good") == []


def test_days_versions_and_tags_narrow_the_list(staff: Client, agent: Agent) -> None:
    old, new = make_trace(agent, "old?"), make_trace(agent, "new?", model_version=make_version(agent, "v40"))
    Trace.objects.filter(pk=old.pk).update(created_at=datetime(2026, 1, 2, 23, 59, tzinfo=UTC))
    write.rate(old, rater="user:alice", scale="thumb", value=0, tags=["too long", "ü"], source="test")
    assert shown(staff, until="2026-01-02") == shown(staff, since="2026-01-02", until="2026-01-02") == [old]
    assert shown(staff, since="2026-01-03") == shown(staff, version="V40") == [new]
    assert shown(staff, tag="too long") == shown(staff, tag="ü") == [old]
    assert shown(staff, tag="long") == []
    assert shown(staff, tag="ü", label="bad") == [old]
    assert shown(staff, until="2026-01-02", label="unlabelled", agent="support-chat") == []


def test_a_day_that_is_not_one_is_told_and_left_out(staff: Client, trace: Trace) -> None:
    page = staff.get("/traces/", {"since": HOSTILE})
    assert page.context["shown"].traces == [trace]
    assert "is not a day such as 2026-05-31" in page.content.decode()
    assert HOSTILE not in page.content.decode()


def test_a_search_looks_through_the_newest_and_says_so(staff: Client, agent: Agent, monkeypatch) -> None:
    monkeypatch.setattr(trace_search, "NEWEST", 3)
    traces = [make_trace(agent, f"same words {number}") for number in range(5)]
    for number, trace in enumerate(traces):
        Trace.objects.filter(pk=trace.pk).update(created_at=datetime(2026, 1, 1 + number, tzinfo=UTC))
    assert shown(staff, find="same words") == [traces[4], traces[3], traces[2]]
    assert shown(staff, find="same words", until="2026-01-02") == [traces[1], traces[0]]
    assert b"among the newest" in staff.get("/traces/", {"find": "same words"}).content


def test_pages_of_a_search_follow_each_other(staff: Client, agent: Agent) -> None:
    for number in range(60):
        make_trace(agent, f"words {number}")
    first = staff.get("/traces/", {"find": "words"}).context
    second = staff.get(f"/traces/?{first['older']}").context
    assert len({trace.pk for context in (first, second) for trace in context["shown"].traces}) == 60


def test_each_trace_shows_its_ratings(staff: Client, trace: Trace) -> None:
    for rater, value in (("user:alice", 1), ("user:bob", 1), ("user:charlie", 0)):
        write.rate(trace, rater=rater, scale="thumb", value=value, tags=[HOSTILE[:20]], source="test")
    write.correct(trace, text="Today.", rater="user:alice", source="test")
    page = staff.get("/traces/").content.decode()
    for words in ("2 good", "1 bad", "1 edited", "&lt;script&gt;"):
        assert words in page
    assert HOSTILE[:20] not in page


def test_a_search_costs_the_same_for_three_traces_and_for_fifty(staff, agent, django_assert_max_num_queries) -> None:
    for number in range(50):
        write.rate(make_trace(agent, f"words {number}"), rater="a", scale="thumb", value=1, tags=["t"], source="test")
    with django_assert_max_num_queries(13):  # four of them limit the time, on PostgreSQL
        assert len(shown(staff, find="words", agent="support-chat", label="good", tag="t")) == 50


# --- those that are picked ---------------------------------------------------------------------------------------------


def test_picked_traces_are_trained_on_never_and_again(staff: Client, agent: Agent) -> None:
    mine, other = make_trace(agent, details={"topic": "bread"}), make_trace(agent)
    held_out = make_trace(agent, details={"split": "heldout"})
    answer = pick(staff, "never", mine, held_out, query="agent=support-chat")
    assert answer["Location"] == "/traces/?agent=support-chat"
    assert [trace.details for trace in (refresh(mine), refresh(other), refresh(held_out))] == [
        {"topic": "bread", "split": "never"},
        {},
        {"split": "heldout"},
    ]
    assert b"never trained on" in staff.get("/traces/").content
    pick(staff, "allow", mine, held_out)
    assert (refresh(mine).details, refresh(held_out).details) == ({"topic": "bread"}, {"split": "heldout"})


def refresh(trace: Trace) -> Trace:
    return Trace.objects.get(pk=trace.pk)


def test_picked_traces_are_downloaded_as_the_api_gives_them(staff: Client, agent: Agent, secret_key: str) -> None:
    mine, other = make_trace(agent, "größer?", "yes\nno"), make_trace(agent)
    write.rate(mine, rater="user:alice", scale="thumb", value=1, source="test")
    answer = pick(staff, "export", mine)
    assert answer["Content-Disposition"] == 'attachment; filename="traces.jsonl"'
    [line] = answer.content.decode().splitlines()
    api = staff.get(f"/api/v1/traces/{mine.pk}/", headers={"Authorization": f"Bearer {secret_key}"})
    assert {**json.loads(line), "feedback_count": 1} == api.json()
    assert str(other.pk) not in line


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"action": "never"}, "no trace is picked"),
        ({"action": "sing", "trace": "x"}, "unknown action"),
        ({"action": "never", "trace": ["x"]}, "has an id that is not one"),
        ({"action": "never", "trace": ["x"] * 51}, "50 is the most at once"),
    ],
)
def test_a_wrong_pick_is_refused(staff: Client, trace: Trace, form: dict, words: str) -> None:
    answer = staff.post("/traces/picked/", form)
    assert answer.status_code == 400
    assert words in answer.content.decode()
    assert refresh(trace).details == {}


def test_who_may_look_may_download_and_change_nothing(client: Client, charlie: User, trace: Trace) -> None:
    assert pick(client, "export", trace)["Location"].startswith("/login/")
    client.force_login(charlie)
    assert pick(client, "export", trace).status_code == 403
    charlie.user_permissions.add(Permission.objects.get(codename="view_trace"))
    client.force_login(User.objects.get(pk=charlie.pk))
    assert pick(client, "export", trace).status_code == 200
    assert pick(client, "never", trace).status_code == 403
    assert b"Never train on these" not in client.get("/traces/").content
    assert refresh(trace).details == {}
