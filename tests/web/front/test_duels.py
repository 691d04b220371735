"""Two answers to one question, blind: nothing that comes before the vote tells who gave which."""

import time
from collections.abc import Iterator

import httpx
import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from rl.models import Agent, AnswerPair, Deployment, Feedback, Trace
from tests.serving.gateway.upstream_double import UpstreamDouble
from tests.waiting import until
from tests.web.front.in_thread import front_in_thread, serve_by

pytestmark = [pytest.mark.database, pytest.mark.process]


PAGE = "/try/support-chat/"
NAME = "second-version"
"""Long: what is signed may hold a short name by chance."""
TELLTALE = (NAME, "base", "x-ratchet", "model", "system_fingerprint", "usage", "created")


@pytest.fixture
def agent(transactional_db: None, upstream: UpstreamDouble) -> Agent:
    agent = Agent.objects.create(name="support-chat")
    serve_by(upstream, agent, NAME)
    Deployment.objects.filter(agent=agent).update(model_name="one")
    return agent


@pytest.fixture
def base(agent: Agent, upstream: UpstreamDouble) -> Deployment:
    return Deployment.objects.create(agent=agent, target="openai", url=upstream.url, model_name="one")


@pytest.fixture
def quickly(monkeypatch) -> None:
    """The gateway sees at once what is served."""
    monkeypatch.setattr("rl.serving.gateway.table.REFRESH_SECONDS", 0.05)


@pytest.fixture
def site(agent: Agent, data_dir, settings) -> Iterator[str]:
    with front_in_thread(settings) as url:
        yield url


def sign_in(site: str, name: str) -> httpx.Client:
    user, _ = User.objects.get_or_create(username=name)
    user.user_permissions.add(Permission.objects.get(codename="add_feedback"))
    browser = Client()
    browser.force_login(user)
    client = httpx.Client(base_url=site, cookies={"sessionid": browser.cookies["sessionid"].value})
    client.cookies["csrftoken"] = "a" * 32
    client.headers["x-csrftoken"] = "a" * 32
    return client


@pytest.fixture
def alice(site: str) -> Iterator[httpx.Client]:
    with sign_in(site, "alice") as client:
        yield client


def draw(client: httpx.Client) -> str:
    return str(client.post(f"{PAGE}pairs/").json()["pair"])


def ask(client: httpx.Client, pair: str, side: str, question: str = "hello") -> httpx.Response:
    body = {"messages": [{"role": "user", "content": question}], "conversation": "c1"}
    return client.post(f"{PAGE}pairs/{pair}/{side}/", json=body)


def answered(client: httpx.Client) -> str:
    """A pair whose answers are both there."""
    pair = draw(client)
    for side in ("a", "b"):
        ask(client, pair, side)
    return pair


def vote(client: httpx.Client, pair: str, **fields: str) -> httpx.Response:
    return client.post(f"{PAGE}vote/", data={"pair": pair, **fields})


def said(response: httpx.Response) -> str:
    """All that came over the wire."""
    head = "".join(f"{name}: {value}\n" for name, value in response.headers.items())
    return f"{response.status_code}\n{head}{response.text}"


@pytest.mark.parametrize("question", ["hello", "status 500", "break off"])
def test_no_byte_before_the_vote_tells_the_version(base: Deployment, alice: httpx.Client, question: str) -> None:
    drawn = alice.post(f"{PAGE}pairs/")
    row = AnswerPair.objects.get()
    for side in ("a", "b"):
        answer = ask(alice, drawn.json()["pair"], side, question)
        for word in (*TELLTALE, str(row.left_id), str(row.right_id)):
            assert word not in said(answer).replace("text/event-stream", "")
        assert "x-ratelimit-remaining-requests" in answer.headers
    assert NAME not in said(drawn)


def test_of_how_an_answer_ended_only_a_cut_is_told(base: Deployment, alice: httpx.Client) -> None:
    is_given = [
        ("finish_reason" in ask(alice, draw(alice), "a", question).text) for question in ("hello", "talk too long")
    ]
    assert is_given == [False, True]


def test_the_version_that_is_gone_meanwhile_is_not_named(base: Deployment, quickly: None, alice: httpx.Client) -> None:
    pair = draw(alice)
    Deployment.objects.all().delete()
    time.sleep(1)
    refused = ask(alice, pair, "a")
    assert (refused.status_code, "this answer did not come" in refused.text) == (404, True)
    assert not [word for word in (NAME, "base") if word in said(refused)]


def test_both_versions_answer_under_the_ids_of_the_pair(base: Deployment, alice: httpx.Client) -> None:
    pair = draw(alice)
    assert [ask(alice, pair, side).status_code for side in ("a", "b")] == [200, 200]
    row = AnswerPair.objects.get()
    assert (row.drawn_for, row.origin) == ("user:alice", "talk")
    traces = until(lambda: len(found := Trace.objects.in_bulk([row.left_id, row.right_id])) == 2 and found)
    assert {trace.model_version and trace.model_version.name for trace in traces.values()} == {None, NAME}
    assert len({trace.session_id for trace in traces.values()}) == 1


def test_the_sides_are_drawn_anew_each_time(base: Deployment, alice: httpx.Client) -> None:
    firsts = set()
    for _ in range(20):
        pair = answered(alice)
        firsts.add(vote(alice, pair, choice="tie").json()["sides"][0]["version"])
        if len(firsts) == 2:
            return
    pytest.fail("the same version stood on the same side twenty times")


def test_one_version_alone_gives_two_samples(alice: httpx.Client, upstream: UpstreamDouble) -> None:
    pair, asked = draw(alice), len(upstream.bodies)
    for side in ("a", "b"):
        ask(alice, pair, side)
    assert [body["temperature"] for body in upstream.bodies[asked:]] == [0.8, 0.8]
    assert [side["version"] for side in vote(alice, pair, choice="a").json()["sides"]] == [NAME, NAME]


def test_a_vote_is_a_comparison_of_the_traces_and_shows_the_names(base: Deployment, alice: httpx.Client) -> None:
    pair = answered(alice)
    answer = vote(alice, pair, choice="b").json()
    row, event = AnswerPair.objects.get(), Feedback.objects.get()
    assert (event.trace_id, event.other_trace_id) == (row.left_id, row.right_id)
    assert (event.kind, event.choice, event.rater, event.tags) == ("comparison", "right", "user:alice", [])
    assert {side["version"]: side["in_use"] for side in answer["sides"]} == {NAME: True, "base": False}
    assert (answer["waiting"], answer["sides"][0]["words"]) == (1, len(event.trace.response.split()))


def test_a_second_vote_replaces_the_first_and_says_that_it_was_not_blind(alice: httpx.Client) -> None:
    pair = answered(alice)
    for choice in ("a", "a", "both_bad"):
        assert vote(alice, pair, choice=choice).status_code == 200
    current = Feedback.objects.get(kind="comparison", is_current=True)
    assert (current.choice, current.tags) == ("both_bad", ["not blind"])
    assert Feedback.objects.filter(kind="comparison").count() == 2


def test_an_edit_is_a_correction_of_the_better_one_and_undo_takes_both_back(alice: httpx.Client) -> None:
    pair = answered(alice)
    assert "say first which answer is better" in vote(alice, pair, action="edit", text="Better.").json()["error"]
    vote(alice, pair, choice="b")
    for text in ("Better.", "Best."):
        assert vote(alice, pair, action="edit", text=text).status_code == 200
    written = Feedback.objects.get(kind="correction", is_current=True)
    assert (written.trace_id, written.text) == (AnswerPair.objects.get().right_id, "Best.")
    undone = {"sides": [], "waiting": 0, "needed": 100, "tastes": [], "run": None}
    assert vote(alice, pair, action="undo").json() == undone
    assert not Feedback.objects.filter(is_current=True).exists()


def test_only_who_asked_may_vote(alice: httpx.Client, site: str) -> None:
    pair = answered(alice)
    with sign_in(site, "charlie") as charlie:
        for fields in ({"choice": "a"}, {"action": "undo"}, {"action": "edit", "text": "x"}):
            answer = vote(charlie, pair, **fields)
            assert (answer.status_code, "was not drawn for you" in answer.json()["error"]) == (400, True)
        assert "was not drawn for you" in ask(charlie, pair, "a").json()["error"]
    assert not Feedback.objects.exists()


def test_what_makes_no_sense_is_refused_in_words(alice: httpx.Client) -> None:
    pair = draw(alice)
    assert "has no trace" in vote(alice, pair, choice="a").json()["error"]
    assert "unknown choice 'c'" in vote(alice, pair, choice="c").json()["error"]
    assert "unknown action 'x'" in vote(alice, pair, action="x").json()["error"]
    assert "pair: not an id" in vote(alice, "x", choice="a").json()["error"]
    assert "unknown side 'c'" in ask(alice, pair, "c").json()["error"]
    ask(alice, pair, "a")
    assert until(lambda: "given already" in ask(alice, pair, "a").text)


def test_where_nothing_answers_no_pair_is_drawn(alice: httpx.Client) -> None:
    Deployment.objects.update(target="none")
    assert "error" in alice.post(f"{PAGE}pairs/").json()
    assert not AnswerPair.objects.exists()


def test_training_takes_the_permission_and_queues_one_run(site: str, alice: httpx.Client) -> None:
    assert alice.post(f"{PAGE}train/").status_code == 403
    user = User.objects.get(username="alice")
    user.user_permissions.add(Permission.objects.get(codename="add_trainingrun"))
    assert alice.post(f"{PAGE}train/").status_code == 403
    User.objects.update(is_staff=True)
    run = alice.post(f"{PAGE}train/").json()["run"]
    assert Agent.objects.get().runs.get().pk == run
    assert "in progress" in alice.post(f"{PAGE}train/").json()["error"]
