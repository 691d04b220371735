"""Where answers are right or wrong, what people say of one tells whether the version was right that gave it."""

from datetime import timedelta

import pytest
from django.db.models import Q
from django.utils import timezone

from rl.collect.feedback import write
from rl.collect.feedback.judged_answers import Share, judged_answers, kind_of_answers, share_right
from rl.data_formatter.answer_kinds import FEWEST
from rl.models import Agent, Feedback, ModelVersion, Trace
from tests.admin.records import make_version
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate

pytestmark = [pytest.mark.django_db, pytest.mark.database]
CLASSES = ("cash", "cards", "transfers")


@pytest.fixture
def version(agent: Agent) -> ModelVersion:
    return make_version(agent, "v1")


def like_classes(agent: Agent, count: int, **fields: object) -> None:
    for number in range(count):
        rate(make_trace(agent, f"Question {number}?", CLASSES[number % 3], **fields), 1)


def edit(trace: Trace, text: str, rater: str = "alice") -> Feedback:
    return write.correct(trace, text=text, rater=rater, source="test").event


def share_of(agent: Agent, version: ModelVersion | None) -> Share:
    return share_right(agent, version, kind_of_answers(agent))


@pytest.fixture
def closed(agent: Agent) -> Agent:
    Agent.objects.update(answer_kind="closed")
    agent.refresh_from_db()
    return agent


def answer(agent: Agent, version: ModelVersion | None, text: str, number: int = 0, **fields: object) -> Trace:
    return make_trace(agent, f"Message {number}?", text, model_version=version, **fields)


def test_likes_and_edits_tell_of_what_kind_the_answers_are(agent: Agent):
    like_classes(agent, FEWEST - 1)
    assert kind_of_answers(agent).kind == "free"
    edit(make_trace(agent, "Another?", "I do not know."), "cash")
    assert set(kind_of_answers(agent).values) == set(CLASSES)


def test_disliked_answers_do_not_tell_of_it_nor_those_that_may_not_be_used(agent: Agent):
    for number in range(FEWEST):
        rate(make_trace(agent, f"Question {number}?", "cash"), 0)
        rate(make_trace(agent, f"Question {number}?", "cards", details={"split": "never"}), 1)
        rate(make_trace(agent, f"Question {number}?", "cards", tool_calls=[{"name": "search"}]), 1)
    assert kind_of_answers(agent).kind == "free"


def test_what_many_people_like_counts_once(agent: Agent):
    for name in "abcdefgh":
        rate(make_trace(agent, "The same?", "Here."), 1, rater=name)
    assert kind_of_answers(agent).kind == "free"


def test_what_the_settings_say_holds_and_free_answers_need_no_query(agent: Agent, closed, django_assert_num_queries):
    assert kind_of_answers(closed).kind == "closed"
    closed.answer_kind = "free"
    with django_assert_num_queries(0):
        assert kind_of_answers(closed).kind == "free"


def test_a_like_or_an_edit_that_says_the_same_is_right_and_anything_else_is_wrong(closed: Agent, version):
    rate(answer(closed, version, "cash"), 1)
    edit(answer(closed, version, "Cash."), " cash")
    rate(answer(closed, version, "cash"), 0)
    edit(answer(closed, version, "cash"), "cards")
    rate(answer(closed, version, "cash"), 3, scale="stars")  # says neither
    write.outcome(answer(closed, version, "cash"), metric="sold", value=1, rater="alice", source="test")
    assert share_of(closed, version) == Share(2, 4)
    assert str(share_of(closed, version)) == "2 of 4"


def test_a_structure_is_right_if_every_field_is(closed: Agent, version):
    closed.answer_kind = "structured"
    edit(answer(closed, version, '{"team": "Cash", "urgent": true}'), '{"urgent": true, "team": "cash"}')
    edit(answer(closed, version, '{"team": "cash", "urgent": false}'), '{"team": "cash", "urgent": true}')
    assert share_of(closed, version) == Share(1, 2)


def test_the_newest_word_of_each_person_counts(closed: Agent, version):
    trace = answer(closed, version, "cash")
    rate(trace, 1)
    rate(trace, 1, rater="bob")
    assert share_of(closed, version) == Share(2, 2)
    event = edit(trace, "cards")
    assert share_of(closed, version) == Share(1, 2)
    write.retract(event, rater="alice", source="test")
    assert share_of(closed, version) == Share(2, 2)


def test_each_version_has_its_own_and_the_base_model_what_the_gateway_fetched(closed: Agent, version):
    rate(answer(closed, version, "cash"), 1)
    rate(answer(closed, None, "cash", source="gateway"), 0)
    rate(answer(closed, None, "cash"), 1)  # of whichever version
    rate(answer(Agent.objects.create(name="other"), version, "cash"), 1)
    assert (share_of(closed, version), share_of(closed, None)) == (Share(1, 1), Share(0, 1))


def test_they_come_in_order_within_a_window_and_no_more_than_asked_for(closed: Agent, version):
    kind, now = kind_of_answers(closed), timezone.now()
    for number in range(4):
        event = rate(answer(closed, version, "cash", number, unit=f"user {number}"), number % 2)
        Feedback.objects.filter(pk=event.pk).update(created_at=now - timedelta(days=4 - number))
    newest = list(judged_answers(closed, version, kind, most=2))
    assert newest == [("user 3", 1.0), ("user 2", 0.0)]
    since = Q(created_at__gte=now - timedelta(days=3, hours=1))
    oldest = list(judged_answers(closed, version, kind, since, newest=False))
    assert [judged.user for judged in oldest] == ["user 1", "user 2", "user 3"]


def test_who_is_not_named_is_known_by_the_rater(closed: Agent, version):
    rate(answer(closed, version, "cash"), 1, rater="charlie")
    assert [judged.user for judged in judged_answers(closed, version, kind_of_answers(closed))] == ["charlie"]
