"""A token lets as many people judge its answer as it says, one unless the server asked for more."""

import json
from collections.abc import Callable
from itertools import count
from uuid import uuid4

import pytest
from django.core.signing import TimestampSigner
from django.db import connection
from rest_framework.exceptions import NotFound

from rl.collect.feedback import write
from rl.collect.feedback.events import UnreadTrace
from rl.collect.feedback.tokens import MOST_RATERS, TokenSubject, read, sign
from rl.collect.feedback.waiting import deliver_by_id
from rl.models import Agent, ApiKey, Feedback, Trace, WaitingRating
from tests.conftest import make_trace
from tests.web.api.conftest import Caller, assert_problem, run_together
from tests.web.api.test_tokens import URL, rating, strict, token_of

__all__ = ["strict"]
pytestmark = [pytest.mark.database, pytest.mark.django_db]


def names() -> set[str]:
    return {rater.removeprefix("device:") for rater in Feedback.objects.values_list("rater", flat=True)}


def test_one_token_counts_for_one_rater_however_many_names_are_tried(strict: Caller, trace: Trace):
    token = token_of(trace)
    answers = [strict.post(URL, rating(trace.pk, rater=f"name {number}", token=token)) for number in range(5)]
    assert [answer.status_code for answer in answers] == [201, *[403] * 4]
    problem = assert_problem(answers[1], 403, "one rater", "more raters")
    assert problem["type"] == "urn:ratchet:problem:token-refused"
    assert names() == {"name 0"}


def test_a_token_that_is_used_up_is_refused_before_anybody_waits_to_write(strict: Caller, trace: Trace, monkeypatch):
    token = token_of(trace)
    assert strict.post(URL, rating(trace.pk, token=token)).status_code == 201
    monkeypatch.setattr(write, "_RATINGS", None)
    assert_problem(strict.post(URL, rating(trace.pk, rater="bert", token=token)), 403, "one rater")


def test_whoever_has_judged_may_change_his_mind_and_take_it_back(strict: Caller, trace: Trace):
    token = token_of(trace)
    for value, status in ((4, 201), (2, 200)):
        assert strict.post(URL, rating(trace.pk, value=value, token=token)).status_code == status
    correction = {"kind": "correction", "trace": str(trace.pk), "rater": "anna", "text": "Better.", "token": token}
    assert strict.post(URL, correction).status_code == 201
    assert strict.post(f"{URL}retract/", {"trace": str(trace.pk), "rater": "anna", "token": token}).status_code == 200
    assert_problem(strict.post(URL, rating(trace.pk, rater="bert", token=token)), 403)
    assert strict.post(URL, rating(trace.pk, value=5, token=token)).status_code == 201


@pytest.mark.parametrize("kind", ["correction", "comparison"])
def test_other_kinds_of_feedback_use_a_token_up_too(strict: Caller, agent: Agent, kind: str):
    left, right = (make_trace(agent, "Which?", text) for text in ("This.", "That."))
    tokens = {"token": token_of(left), "other_token": token_of(right)}
    says = {
        "correction": {"text": "Better.", "token": tokens["token"]},
        "comparison": {"other_trace": str(right.pk), "choice": "left", **tokens},
    }[kind]
    body = {"kind": kind, "trace": str(left.pk), **says}
    assert strict.post(URL, {**body, "rater": "anna"}).status_code == 201
    assert_problem(strict.post(URL, {**body, "rater": "bert"}), 403, "one rater")
    assert_problem(strict.post(URL, rating(left.pk, rater="bert", token=tokens["token"])), 403)
    other = strict.post(URL, rating(right.pk, rater="bert", token=tokens["other_token"]))
    assert other.status_code == (201 if kind == "correction" else 403)


def test_the_server_says_how_many_raters_an_answer_may_have(server: Caller, strict: Caller, agent: Agent):
    item = {"agent": agent.name, "prompt": "Hi", "response": "Hello", "external_id": "e1", "raters": 2}
    one, many = server.post("/api/v1/traces/", item).json(), server.post("/api/v1/traces/", [item]).json()["results"][0]
    assert (read(one["token"]).raters, read(many["token"]).raters) == (2, 2)
    said = [strict.post(URL, rating(one["id"], rater=name, token=one["token"])) for name in "abc"]
    assert [answer.status_code for answer in said] == [201, 201, 403]
    wider = server.post("/api/v1/traces/", {**item, "raters": 3}).json()
    assert strict.post(URL, rating(one["id"], rater="c", token=wider["token"])).status_code == 201
    for wrong in (0, MOST_RATERS + 1, "2", True):
        assert_problem(server.post("/api/v1/traces/", {**item, "raters": wrong}), 400, "/raters")
        assert_problem(server.post("/api/v1/tokens/", {"agent": agent.name, "raters": wrong}), 400, "/raters")


def test_a_token_that_was_signed_before_is_for_one_rater(strict: Caller, trace: Trace):
    signed = TimestampSigner(salt="ratchet.trace-token").sign(f"{trace.agent_id}.{trace.pk.hex}")
    assert read(signed) == TokenSubject(trace.pk, trace.agent_id, 1)
    said = [strict.post(URL, rating(trace.pk, rater=name, token=signed)) for name in "ab"]
    assert [answer.status_code for answer in said] == [201, 403]


def test_lines_of_one_body_are_counted_too(strict: Caller, trace: Trace):
    lines = (json.dumps(rating(trace.pk, rater=name, token=token_of(trace))) for name in "abca")
    results = strict.raw(URL, "\n".join(lines), "application/x-ndjson").json()["results"]
    assert [row["status"] for row in results] == [201, 403, 403, 200]


def test_keys_that_need_no_token_and_people_of_the_site_are_not_counted(shop: Caller, server: Caller, strict, trace):
    for caller in (shop, server):
        for name in "ab":
            assert caller.post(URL, rating(trace.pk, rater=name, token=token_of(trace))).status_code == 201
    assert strict.post(URL, rating(trace.pk, rater="c", token=token_of(trace))).status_code == 201


# --- before the answer -------------------------------------------------------------------------------------------------


def test_ratings_that_wait_are_counted_and_the_answer_brings_no_room(server: Caller, strict: Caller, agent: Agent):
    reserved = server.post("/api/v1/tokens/", {"agent": agent.name, "raters": 2}).json()
    said = [strict.post(URL, rating(reserved["trace"], rater=name, token=reserved["token"])) for name in "abcb"]
    assert [answer.status_code for answer in said] == [202, 202, 403, 202]
    item = {"agent": agent.name, "prompt": "Hi", "response": "Hello", "token": reserved["token"]}
    stored = server.post("/api/v1/traces/", item).json()
    assert read(stored["token"]).raters == 2
    assert names() == {"a", "b"}
    assert set(Feedback.objects.values_list("address", flat=True)) != {""}
    assert_problem(strict.post(URL, rating(reserved["trace"], rater="c", token=stored["token"])), 403, "2 raters")


def test_a_rating_whose_answer_comes_while_it_is_being_kept_counts_at_once(strict, agent: Agent, monkeypatch):
    trace = make_trace(agent)
    looks = count()

    def is_not_here_yet(key: ApiKey, trace_id: object, *columns: str) -> Trace:
        if next(looks) == 0:
            raise NotFound
        return trace

    monkeypatch.setattr("rl.web.api.feedback_writing.find_trace", is_not_here_yet)
    monkeypatch.setattr("rl.web.api.feedback_writing.UnreadTrace", lambda pk, agent_id: UnreadTrace(uuid4(), agent_id))
    assert strict.post(URL, rating(trace.pk, token=token_of(trace))).status_code == 201
    assert not WaitingRating.objects.exists()
    assert names() == {"anna"}


# --- at once -----------------------------------------------------------------------------------------------------------


def together(call: Callable[[str], int], number: int) -> list[int]:
    """What a call gives with as many names, in as many threads."""
    answers: list[int] = []
    turns = count()

    def work() -> None:
        try:
            answers.append(call(f"name {next(turns)}"))
        finally:
            connection.close()

    run_together(work, number)
    return sorted(answers)


@pytest.mark.django_db(transaction=True)
def test_requests_at_once_get_no_more_than_the_token_says(strict: Caller, trace: Trace):
    token = sign(TokenSubject(trace.pk, trace.agent_id, 3))
    statuses = together(lambda name: strict.post(URL, rating(trace.pk, rater=name, token=token)).status_code, 12)
    assert statuses == [201] * 3 + [403] * 9
    assert len(names()) == 3


@pytest.mark.django_db(transaction=True)
def test_ratings_that_wait_at_once_are_no_more_than_the_token_says(strict: Caller, agent: Agent):
    subject = TokenSubject(uuid4(), agent.pk, 3)

    def rate(name: str) -> int:
        return strict.post(URL, rating(subject.trace_id, rater=name, token=sign(subject))).status_code

    assert together(rate, 12) == [202] * 3 + [403] * 9
    assert WaitingRating.objects.count() == 3
    trace = Trace.objects.create(
        pk=subject.trace_id, agent=agent, prompt=[{"role": "user", "content": "q"}], response="a"
    )
    assert deliver_by_id({trace.pk: trace}) == 3
    assert together(lambda name: rate(f"another {name}"), 4) == [403] * 4
