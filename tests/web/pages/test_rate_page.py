import json
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from rl.collect.feedback.write import correct, rate
from rl.models import Agent, AnswerPair, Claim, Feedback, GoldItem, Trace
from rl.queues import votes
from tests.conftest import make_trace

pytestmark = pytest.mark.database


ADDRESS = "/rate/support-chat/"


@pytest.fixture
def answers(agent: Agent) -> list[Trace]:
    return [make_trace(agent, f"question {number}", f"answer {number}") for number in range(6)]


@pytest.fixture
def rater(client: Client, alice: User) -> Client:
    client.force_login(alice)
    return client


def send(client: Client, *decisions: dict[str, Any], queue: str = "answers", **request: Any) -> dict[str, Any]:
    body = json.dumps({"decisions": decisions, **request})
    answer = client.post(f"{ADDRESS}{queue}/decisions/", body, content_type="application/json")
    assert answer.status_code == 200, answer.content
    return answer.json()


def decision(item: dict[str, Any], action: str = "rate", **fields: Any) -> dict[str, Any]:
    return {"id": str(uuid.uuid4()), "claim": item["claim"], "action": action, **fields}


def test_the_page_shows_the_newest_answers_and_takes_decisions(rater: Client, answers: list[Trace]) -> None:
    items = rater.get(ADDRESS).context["items"]
    assert [item["question"] for item in items] == ["question 5", "question 4", "question 3"]
    vote, ahead = decision(items[0], value=1), [item["claim"] for item in items[1:]]
    answer = send(rater, vote, holding=ahead, want=1)
    event = Feedback.objects.get()
    assert answer["results"] == [{"id": vote["id"], "error": None, "feedback": event.pk, "revealed": None}]
    assert [item["question"] for item in answer["items"]] == ["question 2"]
    assert answer["progress"] == {"done": 1, "total": 6, "text": "1 of 6"}
    assert answer["decisions"] == [{"claim": items[0]["claim"], "label": "Good", "question": "question 5"}]
    assert send(rater, vote, holding=ahead)["results"] == answer["results"]
    assert Feedback.objects.count() == 1
    undone = send(rater, decision(items[0], "undo"), holding=ahead, want=1)
    assert [item["question"] for item in undone["items"]] == ["question 5"]
    event.refresh_from_db()
    assert not event.is_current


def test_whose_ratings_count_is_said_where_somebody_has_rated(rater: Client, answers: list[Trace]) -> None:
    assert 'id="tastes"' not in rater.get(ADDRESS).content.decode()
    rate(answers[0], rater="simulated-1", scale="thumb", value=1, source="simulation")
    rate(answers[1], rater="user:bob", scale="thumb", value=1, source="test")
    Agent.objects.update(rater_cap=0.5)
    text = rater.get(ADDRESS).content.decode()
    assert "Ratings that count: 1 simulated (the demo&#x27;s), 1 other people&#x27;s. All weigh alike, unless" in text
    assert "nobody decides more than 50% of a training." in text


@pytest.mark.django_db(transaction=True)
def test_decisions_and_what_comes_next_are_one_transaction(rater: Client, answers: list[Trace]) -> None:
    first, *ahead = rater.get(ADDRESS).context["items"]
    with CaptureQueriesContext(connection) as statements:
        answer = send(rater, decision(first, value=1), holding=[item["claim"] for item in ahead], want=1)
    assert [result["error"] for result in answer["results"]] == [None]
    assert len(answer["items"]) == 1
    assert sum(row["sql"].startswith("BEGIN") for row in statements) == 1


def test_a_finished_queue_says_what_happens_with_the_ratings(rater: Client, agent: Agent) -> None:
    make_trace(agent)
    answer = send(rater, decision(rater.get(ADDRESS).context["items"][0], value=1))
    assert answer["progress"]["text"].startswith("1 of 1 · ratings that wait for the next training: 1; ")
    assert answer["items"] == []


def test_what_happened_shows_the_work_and_no_opinion(staff: Client, agent: Agent) -> None:
    call = {"tool_name": "find_parcel", "arguments": {"id": 4711}, "result": "in transit", "success": True}
    trace = make_trace(agent, tool_calls=[call], rewards={"taste": {"value": 1, "weight": 1}}, reward=1)
    rate(trace, rater="x", scale="thumb", value=0, notes="secret note", source="test")
    claim = staff.get(ADDRESS).context["items"][0]["claim"]
    page = staff.get(f"{ADDRESS}answers/items/{claim}/").content.decode()
    assert "find_parcel" in page
    assert not [word for word in ("taste", "secret note", "Rewards") if word in page]
    assert staff.get(f"{ADDRESS}answers/items/{claim + 1}/").status_code == 404


def test_a_decision_becomes_the_right_answer_by_which_others_are_measured(
    client: Client, bob: User, alice: User, answers: list[Trace]
) -> None:
    client.force_login(bob)
    first, second, _ = client.get(ADDRESS).context["items"]
    address = f"{ADDRESS}answers/items/{first['claim']}/"
    assert "decide the item first" in client.post(address).content.decode()
    send(client, decision(first, value=0))
    assert "My decision is the right answer" in client.get(address).content.decode()
    assert client.post(address).status_code == 302
    gold = GoldItem.objects.get()
    assert (gold.trace, gold.value, gold.created_by, gold.queue.name) == (answers[5], 0.0, "user:bob", "answers")
    assert "This is a gold item" in client.get(address).content.decode()
    settings_page = f"{ADDRESS}answers/settings/"
    assert "question 5" in client.get(settings_page).content.decode()
    assert client.post(settings_page, {"action": "remove_gold", "gold": gold.pk}).status_code == 302
    assert not GoldItem.objects.exists()
    refused = client.post(settings_page, {"action": "remove_gold", "gold": gold.pk})
    assert (refused.status_code, "no gold item" in refused.content.decode()) == (400, True)


def test_gold_items_are_made_by_those_who_may_change_queues(rater: Client, answers: list[Trace], alice: User) -> None:
    alice.user_permissions.add(Permission.objects.get(codename="view_trace"))
    first = rater.get(ADDRESS).context["items"][0]
    send(rater, decision(first, value=1))
    address = f"{ADDRESS}answers/items/{first['claim']}/"
    assert "right answer" not in rater.get(address).content.decode()
    assert rater.post(address).status_code == 403


def test_the_page_for_labels_is_a_queue_of_what_nobody_has_rated(staff: Client, answers: list[Trace]) -> None:
    rate(answers[5], rater="x", scale="thumb", value=0, source="test")
    address = staff.get("/traces/of/support-chat/label/")["Location"]
    assert [item["question"] for item in staff.get(address).context["items"]] == [
        "question 4",
        "question 3",
        "question 2",
    ]


@pytest.mark.django_db(transaction=True)
def test_others_wait_for_few_statements_of_a_decision(rater: Client, answers: list[Trace]) -> None:
    """Each statement of a transaction waits for the interpreter and the processor again, and all who write wait for it."""
    items = rater.get(ADDRESS).context["items"]
    with CaptureQueriesContext(connection) as queries:
        send(rater, decision(items[0], value=1), want=3)
    statements = [query["sql"] for query in queries]
    (begun,) = (number for number, sql in enumerate(statements) if sql.startswith("BEGIN"))
    locked = statements[begun + 1 : statements.index("COMMIT")]
    assert len(locked) <= 15, "\n".join(locked)


def test_others_cannot_rate(client: Client, charlie: User, answers: list[Trace]) -> None:
    assert client.get(ADDRESS)["Location"] == f"/login/?next={ADDRESS}"
    assert client.post(f"{ADDRESS}answers/decisions/", "{}", content_type="application/json").status_code == 401
    client.force_login(charlie)
    assert client.get(ADDRESS).status_code == 403
    assert client.get("/rate/").status_code == 403


def test_the_list_of_queues_says_what_waits_in_each(rater: Client, answers: list[Trace]) -> None:
    shop, idle = (Agent.objects.create(name=name) for name in ("shop", "idle"))
    make_trace(shop)
    decided, skipped = rater.get(ADDRESS).context["items"][:2]
    send(rater, decision(decided, value=1), decision(skipped, "skip"))
    text = " ".join(rater.get("/rate/").content.decode().split())
    waiting = {choice["agent"].name: [row["waiting"] for row in choice["queues"]] for choice in _choices(rater)}
    assert waiting == {
        "shop": [(1, False, True), (0, False, False)],
        "support-chat": [(5, False, True), (0, False, False)],
    }
    assert "5 waiting" in text
    assert idle.name not in text


@pytest.mark.database
def test_an_only_queue_is_opened_at_once_but_by_whoever_may_change_it(
    client: Client, alice: User, bob: User, answers: list[Trace]
) -> None:
    client.force_login(alice)
    assert client.get("/rate/")["Location"] == ADDRESS
    client.force_login(bob)
    text = client.get("/rate/").content.decode()
    settings = f"{ADDRESS}answers/settings/"
    for address in (f"{settings}#invitations", f"{settings}#gold", settings, f"{ADDRESS}answers/raters/"):
        assert f'href="{address}"' in text
    assert f'href="{settings}#invitations"' in client.get(ADDRESS).content.decode()


def _choices(client: Client) -> list[dict[str, Any]]:
    return client.get("/rate/").context["choices"]


def test_the_list_of_queues_asks_no_more_for_many_agents(rater: Client, answers: list[Trace]) -> None:
    def count() -> int:
        _choices(rater)
        with CaptureQueriesContext(connection) as queries:
            _choices(rater)
        return len(queries)

    make_trace(Agent.objects.create(name="agent-0"))
    few = count()
    for number in range(1, 8):
        make_trace(Agent.objects.create(name=f"agent-{number}"))
    assert count() == few


def test_beyond_some_the_list_of_queues_says_that_there_are_more(
    rater: Client, answers: list[Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_trace(Agent.objects.create(name="shop"))
    monkeypatch.setattr(votes, "WAITING", 3)
    assert "6 waiting" in " ".join(rater.get("/rate/").content.decode().split())
    monkeypatch.setattr(votes, "_QUEUES_AT_ONCE", 1)
    assert "3+ waiting" in " ".join(rater.get("/rate/").content.decode().split())


def test_many_agents_come_in_pages_and_are_found_by_a_part_of_their_names(rater: Client) -> None:
    for number in range(14):
        make_trace(Agent.objects.create(name=f"agent-{number:02}"), "question", "answer")

    def shown(query: str) -> list[str]:
        return [choice["agent"].name for choice in rater.get(f"/rate/{query}").context["choices"]]

    assert shown("") == [f"agent-{number:02}" for number in range(12)]
    assert shown("?page=2") == ["agent-12", "agent-13"]
    assert shown("?find=-13") == ["agent-13"]
    assert shown("?find=other") == []
    assert "More agents" in rater.get("/rate/").content.decode()
    assert "No agent here has “other” in its name" in rater.get("/rate/?find=other").content.decode()


def test_a_request_that_is_not_one_is_refused(rater: Client, agent: Agent) -> None:
    for body, words in (("[", "must be JSON"), ('{"decisions": 5}', "decisions: a list"), ('{"want": -1}', "want:")):
        answer = rater.post(f"{ADDRESS}answers/decisions/", body, content_type="application/json")
        assert (answer.status_code, words in answer.json()["error"]) == (400, True)
    assert send(rater, {"id": "x"})["results"][0]["error"].startswith("id: a UUID")
    assert rater.get("/rate/support-chat/nothing/").status_code == 404


@pytest.mark.process
def test_a_pair_is_stored_as_its_sides_were_shown(rater: Client, agent: Agent, bob: User) -> None:
    for number in range(3):
        left, right = (make_trace(agent, f"question {number}", side) for side in ("left", "right"))
        AnswerPair.objects.create(agent=agent, left=left, right=right, origin="second")
    items = rater.get(f"{ADDRESS}pairs/").context["items"]
    assert len(items) == 3
    for item in items:
        answer = send(rater, decision(item, choice="left"), queue="pairs")
        assert answer["results"][0]["revealed"] == {"left": "base", "right": "base"}
        event = Feedback.objects.get(pk=answer["results"][0]["feedback"])
        better = event.trace if event.choice == "left" else event.other_trace
        assert better
        assert better.response == item["answers"][0]["text"]
    rater.force_login(bob)
    assert rater.get(f"{ADDRESS}pairs/").context["items"] == []
    assert not Claim.objects.filter(rater="user:bob").exists()


# --- answers that are right or wrong ----------------------------------------------------------------------------------


@pytest.fixture
def letter(agent: Agent) -> Trace:
    Agent.objects.filter(pk=agent.pk).update(answer_values=["billing", "shipping", "<b>"])
    return make_trace(agent, "Where is my parcel?", "Billing.")


def test_the_right_answer_of_a_set_is_stored_as_one_correction_and_taken_back(rater: Client, letter: Trace) -> None:
    page = rater.get(ADDRESS)
    assert (page.context["values"], page.context["items"][0]["form"]) == (
        ["billing", "shipping", "<b>"],
        {"kind": "closed", "answer": "billing"},
    )
    item = page.context["items"][0]
    answer = send(rater, decision(item, text="Shipping"))
    event = Feedback.objects.get()
    assert (event.kind, event.text, event.rater, event.trace_id) == ("correction", "shipping", "user:alice", letter.pk)
    assert answer["results"][0]["feedback"] == event.pk
    assert answer["decisions"][0]["label"] == "shipping"
    send(rater, decision(item, "undo"))
    assert not Feedback.objects.filter(is_current=True).exists()


def test_the_answer_itself_is_a_thumb_up(rater: Client, letter: Trace) -> None:
    send(rater, decision(rater.get(ADDRESS).context["items"][0], text="billing"))
    event = Feedback.objects.get()
    assert (event.kind, event.value) == ("rating", 1.0)


def test_what_is_none_of_the_set_is_refused_in_words(rater: Client, letter: Trace) -> None:
    item = rater.get(ADDRESS).context["items"][0]
    refused = send(rater, decision(item, text="shiping"), decision(item, text="billing", value=1))["results"]
    assert "unknown answer 'shiping' (did you mean shipping?)" in refused[0]["error"]
    assert "asks for value alone" in refused[1]["error"]
    assert not Feedback.objects.exists()


def test_where_answers_are_free_a_thumb_takes_no_text(rater: Client, trace: Trace) -> None:
    item = rater.get(ADDRESS).context["items"][0]
    assert item["form"] is None
    assert "neither of a closed set nor JSON" in send(rater, decision(item, text="x"))["results"][0]["error"]


def test_without_a_script_the_values_are_buttons_and_their_texts_are_text(rater: Client, letter: Trace) -> None:
    page = rater.get(ADDRESS)
    text, item = page.content.decode(), page.context["items"][0]
    assert '<button name="text" value="shipping" dir="auto">shipping</button>' in text
    assert 'value="&lt;b&gt;" dir="auto">&lt;b&gt;</button>' in text
    assert rater.post(ADDRESS, {"claim": item["claim"], "text": "shipping"}).status_code == 302
    assert Feedback.objects.get().text == "shipping"


def test_without_a_script_json_is_corrected_in_a_box(rater: Client, agent: Agent) -> None:
    Agent.objects.filter(pk=agent.pk).update(answer_kind="structured")
    make_trace(agent, "An invoice", '{"sum": 1}')
    page = rater.get(ADDRESS)
    assert '<textarea name="text"' in page.content.decode()
    claim = page.context["items"][0]["claim"]
    rater.post(ADDRESS, {"claim": claim, "action": "rate", "text": '{"sum": 2}'})
    assert Feedback.objects.get().text == '{"sum": 2}'
    rater.post(ADDRESS, {"claim": claim, "action": "undo"})
    rater.post(ADDRESS, {"claim": claim, "text": '{"sum": 3}', "value": "0"})
    assert Feedback.objects.get(is_current=True).value == 0.0


def test_a_correction_that_becomes_a_gold_item_says_that_the_answer_is_wrong(staff: Client, letter: Trace) -> None:
    item = staff.get(ADDRESS).context["items"][0]
    send(staff, decision(item, text="shipping"))
    staff.post(f"{ADDRESS}answers/items/{item['claim']}/")
    assert GoldItem.objects.get().value == 0.0


def test_whoever_corrected_an_answer_elsewhere_is_not_asked_about_it(rater: Client, letter: Trace) -> None:
    correct(letter, text="shipping", rater="user:alice", source="try_page")
    assert rater.get(ADDRESS).context["items"] == []
