import uuid

import pytest
from django.contrib.auth.models import User
from django.test import Client

from rl.models import Agent, Deployment, Feedback, Trace
from tests.admin.records import make_version
from tests.conftest import make_trace
from tests.waiting import PATIENCE_SECONDS

PAGE, RATING = "/try/support-chat/", "/try/support-chat/rating/"
ANSWER = "/try/support-chat/answer/"


@pytest.fixture
def talker(client: Client, alice: User) -> Client:
    client.force_login(alice)
    return client


def deploy(agent: Agent, target: str = "openai", **fields) -> Deployment:
    values = {"version": make_version(agent, "v2"), "url": "http://127.0.0.1:9", "model_name": "x", "alias": "champion"}
    return Deployment.objects.create(agent=agent, target=target, **{**values, **fields})


# --- who may ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", [ANSWER, RATING])
def test_asking_and_rating_take_them_too(client: Client, charlie, agent: Agent, address: str) -> None:
    assert client.post(address)["Location"] == f"/login/?next={address}"
    client.force_login(charlie)
    assert client.post(address).status_code == 403
    assert client.get(address).status_code == 405


@pytest.mark.parametrize("address", [ANSWER, RATING])
def test_what_another_site_sends_is_refused(alice, trace: Trace, address: str) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    assert client.post(address, {"trace": trace.pk, "value": "1"}).status_code == 403
    assert not Feedback.objects.exists()


# --- the page ---------------------------------------------------------------------------------------------------------


def test_it_offers_five_questions_to_begin_with_and_those_of_people_first(talker: Client, agent: Agent) -> None:
    make_trace(agent, "asked by somebody", source="gateway")
    for number in range(6):
        make_trace(agent, f"imported {number}", source="import")
    make_trace(agent, "long " * 30, source="import")
    assert talker.get(PAGE).context["examples"] == ["asked by somebody", *(f"imported {n}" for n in (5, 4, 3, 2))]


def test_where_nothing_answers_it_says_why_and_what_to_do(talker: Client, agent: Agent) -> None:
    text = talker.get(PAGE).content.decode()
    assert "No version of support-chat answers yet" in text
    assert "The base model of support-chat is in use, and nothing serves it." in text
    assert "python3 manage.py deploy_model --agent support-chat --version base --target llama_cpp" in text


def test_the_command_names_the_version_in_use(talker: Client, agent: Agent) -> None:
    deploy(agent, target="none", url="")
    assert "deploy_model --agent support-chat --version v2 --target" in talker.get(PAGE).content.decode()


def test_where_a_version_answers_there_is_no_advice(talker: Client, agent: Agent) -> None:
    deploy(agent)
    page = talker.get(PAGE)
    assert page.context["problem"] == ""
    assert "deploy_model" not in page.content.decode()


def test_no_key_stands_in_the_page_and_no_cache_keeps_it(talker: Client, agent: Agent) -> None:
    answer = talker.get(PAGE)
    assert not [start for start in ("sk_", "pk_") if start in answer.content.decode()]
    assert "no-store" in answer["Cache-Control"]
    assert "default-src 'none'" in answer["Content-Security-Policy"]


@pytest.mark.process
def test_markdown_becomes_html_that_runs_nothing(talker: Client, agent: Agent, monkeypatch) -> None:
    monkeypatch.setattr("rl.web.pages.talking.FORMAT_SECONDS", PATIENCE_SECONDS)
    html = talker.post(f"{PAGE}formatted/", {"text": "**two**\r\n<script>alert(1)</script>"}).json()["html"]
    assert "<strong>two</strong>" in html
    assert "<script" not in html


def test_raters_are_not_shown_which_version_answers(client: Client, alice, bob, agent: Agent) -> None:
    for user, shown in ((alice, False), (bob, True)):
        client.force_login(user)
        assert ("data-shows-version" in client.get(PAGE).content.decode()) is shown


def test_names_are_escaped(talker: Client) -> None:
    Agent.objects.create(name="<script>alert(1)")
    Agent.objects.create(name="other")
    for address in ("/try/", "/try/%3Cscript%3Ealert(1)/"):
        text = talker.get(address).content.decode()
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert" in text


@pytest.mark.parametrize("address", ["/try/nobody/", "/try/nobody/before-and-after/"])
def test_an_unknown_agent_is_not_found(staff: Client, address: str) -> None:
    assert staff.get(address).status_code == 404


# --- choosing an agent --------------------------------------------------------------------------------------------------


def test_the_only_agent_that_answers_needs_no_choice(talker: Client, agent: Agent) -> None:
    assert talker.get("/try/")["Location"] == PAGE
    other = Agent.objects.create(name="a-second")
    deploy(agent)
    assert talker.get("/try/")["Location"] == PAGE
    deploy(other)
    assert [row.name for row in talker.get("/try/").context["agents"]] == ["a-second", "support-chat"]


def test_agents_that_answer_come_first(talker: Client, agent: Agent) -> None:
    for name in ("a", "b", "c"):
        Agent.objects.create(name=name)
    deploy(agent)
    deploy(Agent.objects.get(name="b"))
    page = talker.get("/try/")
    assert [row.name for row in page.context["agents"]] == ["b", "support-chat", "a", "c"]
    assert page.content.decode().count("nothing serves it yet") == 2


def test_without_an_agent_it_names_the_example(talker: Client) -> None:
    assert "manage.py quickstart" in talker.get("/try/").content.decode()


def test_a_question_that_is_refused_is_answered_in_json(talker: Client, agent: Agent) -> None:
    answer = talker.post(ANSWER, {"messages": []}, content_type="application/json")
    assert answer.status_code == 400
    assert "end with a question" in answer.json()["error"]


# --- thumbs ------------------------------------------------------------------------------------------------------------


@pytest.mark.database
def test_a_thumb_is_a_rating_that_can_be_changed_and_taken_back(talker: Client, trace: Trace, alice) -> None:
    values = [
        talker.post(RATING, {"trace": trace.pk, **fields}).json()["value"]
        for fields in ({"value": "1"}, {"value": "0"}, {"action": "retract"}, {"action": "retract"})
    ]
    assert values == [1.0, 0.0, None, None]
    kinds = [(event.kind, event.rater, event.source) for event in Feedback.objects.order_by("id")]
    assert kinds == [(kind, "user:alice", "try_page") for kind in ("rating", "rating", "retraction")]
    assert not Feedback.objects.filter(kind="rating", is_current=True).exists()


def test_nobody_takes_back_what_another_person_said(talker: Client, trace: Trace) -> None:
    theirs = Feedback.objects.create(
        agent=trace.agent, trace=trace, kind="rating", rater="user:bob", scale="thumb", raw_value=1, value=1
    )
    assert talker.post(RATING, {"trace": trace.pk, "action": "retract"}).json()["value"] is None
    theirs.refresh_from_db()
    assert theirs.is_current


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "value: This field is required."),
        ({"value": "5"}, "value: Select a valid choice"),
        ({"value": "1", "trace": "x"}, "trace: not an id"),
        ({"value": "1", "trace": str(uuid.UUID(int=1))}, "has no trace"),
        ({"action": "delete"}, "unknown action 'delete'; known: rate, retract"),
    ],
)
def test_what_cannot_be_rated_is_refused_in_words(talker: Client, trace: Trace, fields: dict, problem: str) -> None:
    answer = talker.post(RATING, {"trace": trace.pk, **fields})
    assert answer.status_code == 400
    assert problem in answer.json()["error"]
    assert not Feedback.objects.exists()


def test_an_answer_of_another_agent_is_not_rated_here(talker: Client, agent: Agent) -> None:
    other = make_trace(Agent.objects.create(name="other"))
    answer = talker.post(RATING, {"trace": other.pk, "value": "1"})
    assert (answer.status_code, "has no trace" in answer.json()["error"]) == (400, True)


# --- the right answer -------------------------------------------------------------------------------------------------


@pytest.fixture
def letter(agent: Agent) -> Trace:
    Agent.objects.filter(pk=agent.pk).update(answer_values=["billing", "shipping", "legal"])
    chosen = {"among": 3, "remembered": 0, "shares": {"billing": 0.7, "legal": 0.2, "shipping": 0.1}}
    return make_trace(agent, "Where is my parcel?", "billing", details={"chosen": chosen})


def words() -> list[tuple[str, float | None, str]]:
    rows = Feedback.objects.filter(is_current=True).order_by("id")
    return list(rows.values_list("kind", "value", "text"))


def test_the_page_says_of_what_kind_the_answers_are(talker: Client, letter: Trace) -> None:
    assert 'data-asks="closed"' in talker.get(PAGE).content.decode()
    Agent.objects.update(answer_values=[], answer_kind="structured")
    assert 'data-asks="structured"' in talker.get(PAGE).content.decode()
    Agent.objects.update(answer_kind="")
    assert 'data-asks=""' in talker.get(PAGE).content.decode()


def test_an_answer_comes_with_what_else_it_could_have_been(talker: Client, letter: Trace) -> None:
    told = talker.get(f"{PAGE}answers/{letter.pk}/").json()
    assert told["form"] == {"kind": "closed", "answer": "billing"}
    assert [(value["text"], value["share"]) for value in told["values"]] == [
        ("billing", 0.7),
        ("legal", 0.2),
        ("shipping", 0.1),
    ]
    assert told["is_chosen"]
    letter.details["chosen"] = {"among": 3, "form": "guided_choice"}  # another server, which is told of no correction
    letter.save()
    assert not talker.get(f"{PAGE}answers/{letter.pk}/").json()["is_chosen"]
    other = make_trace(Agent.objects.create(name="other"))
    assert talker.get(f"{PAGE}answers/{other.pk}/").status_code == 400


def test_the_last_word_on_an_answer_counts(talker: Client, letter: Trace) -> None:
    said = [
        (talker.post(RATING, {"trace": letter.pk, **fields}).json(), words())
        for fields in ({"value": "1"}, {"text": "Legal"}, {"text": "shipping"}, {"text": "billing"}, {"text": "legal"})
    ]
    assert [current for _, current in said] == [
        [("rating", 1.0, "")],
        [("correction", None, "legal")],
        [("correction", None, "shipping")],
        [("rating", 1.0, "")],
        [("correction", None, "legal")],
    ]
    assert [(answer["value"], answer["text"]) for answer, _ in said[2:4]] == [(None, "shipping"), (1.0, "")]
    assert said[-1][0]["waiting"] == 1
    assert talker.post(RATING, {"trace": letter.pk, "action": "retract"}).json()["text"] == ""
    assert words() == []


def test_what_the_answer_cannot_be_is_refused_in_words(talker: Client, letter: Trace) -> None:
    answer = talker.post(RATING, {"trace": letter.pk, "text": "x" * 1_000_000})
    assert answer.status_code == 400
    assert "known: billing, shipping, legal" in answer.json()["error"]
    assert len(answer.json()["error"]) < 300
    assert not Feedback.objects.exists()
