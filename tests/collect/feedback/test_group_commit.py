import threading
from collections.abc import Sequence

import pytest
from django.db import OperationalError, connection, transaction

from rl.collect.feedback import write
from rl.collect.feedback.events import rating
from rl.collect.feedback.group_commit import GroupCommit
from rl.models import Agent, ApiKey, Feedback, Trace
from tests.conftest import make_trace

pytestmark = pytest.mark.database


class Slow:
    """A commit that ends when it is let; the groups that it got."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.began, self.may_end = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, items: Sequence[int]) -> list[int | Exception]:
        self.groups.append(list(items))
        self.began.release()
        assert self.may_end.acquire(timeout=60)
        if 13 in items:
            raise OperationalError("disk I/O error")
        return [ValueError(f"{item} is odd") if item % 2 else item * 10 for item in items]


def submitted(group: GroupCommit[int, int], *items: int) -> tuple[list[threading.Thread], dict[int, object]]:
    """Threads that wait, in this order, and what each got or raised."""
    got: dict[int, object] = {}

    def submit(item: int) -> None:
        try:
            got[item] = group.submit(item)
        except Exception as error:  # compared by the test
            got[item] = str(error)
        finally:
            connection.close()

    threads = []
    for item in items:
        thread = threading.Thread(target=submit, args=(item,))
        thread.start()
        threads.append(thread)
    return threads, got


def queued(group: GroupCommit[int, int], count: int) -> None:
    until = threading.Event()
    for _ in range(2000):
        if len(group._queue) == count:
            return
        until.wait(0.01)
    raise AssertionError(f"{len(group._queue)} wait")


def ended(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def test_what_comes_during_a_commit_shares_the_next_one():
    slow = Slow()
    group: GroupCommit[int, int] = GroupCommit(slow, most=3)
    first, answer = submitted(group, 0)
    assert slow.began.acquire(timeout=60)
    rest, answers = submitted(group, 2, 4, 6, 8)
    queued(group, 4)
    assert answer == answers == {}  # nobody is answered before the commit
    slow.may_end.release(3)
    ended([*first, *rest])
    assert [len(one) for one in slow.groups] == [1, 3, 1]
    assert {**answer, **answers} == {item: item * 10 for item in (0, 2, 4, 6, 8)}


def test_an_outcome_that_is_an_error_is_raised_for_one_alone():
    slow = Slow()
    group: GroupCommit[int, int] = GroupCommit(slow, most=3)
    first, _ = submitted(group, 0)
    assert slow.began.acquire(timeout=60)
    rest, answers = submitted(group, 2, 3, 4)
    queued(group, 3)
    slow.may_end.release(2)
    ended([*first, *rest])
    assert answers == {2: 20, 3: "3 is odd", 4: 40}


def test_a_commit_that_fails_fails_all_of_its_group_and_none_of_the_next():
    slow = Slow()
    group: GroupCommit[int, int] = GroupCommit(slow, most=2)
    first, _ = submitted(group, 0)
    assert slow.began.acquire(timeout=60)
    second, failed = submitted(group, 12, 13)
    queued(group, 2)
    third, answers = submitted(group, 2)
    queued(group, 3)
    slow.may_end.release(3)
    ended([*first, *second, *third])
    assert failed == {12: "disk I/O error", 13: "disk I/O error"}
    assert answers == {2: 20}


class Groups:
    """Counts what is written together, and holds the first until enough wait."""

    def __init__(self, monkeypatch) -> None:
        self.sizes: list[int] = []
        self.began, self.may_go_on = threading.Event(), threading.Event()
        commit = write._RATINGS._commit

        def counted(ratings: Sequence[Feedback]) -> Sequence[object]:
            self.sizes.append(len(ratings))
            if len(self.sizes) == 1:
                self.began.set()
                assert self.may_go_on.wait(60)
            return commit(ratings)

        monkeypatch.setattr(write._RATINGS, "_commit", counted)


def rate_together(monkeypatch, events: list[Feedback]) -> tuple[Groups, list[object]]:
    """The first rating is held until all others wait."""
    seen = Groups(monkeypatch)
    outcomes: list[object] = [None] * len(events)

    def submit(number: int) -> None:
        try:
            outcomes[number] = write._RATINGS.submit(events[number])
        except Exception as error:  # compared by the test
            outcomes[number] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(len(events))]
    threads[0].start()
    assert seen.began.wait(60)
    for thread in threads[1:]:
        thread.start()
    queued(write._RATINGS, len(events) - 1)
    seen.may_go_on.set()
    ended(threads)
    return seen, outcomes


def by(rater: str, trace: Trace, **fields) -> Feedback:
    return rating(trace, rater=rater, scale="thumb", value=1, source="test", **fields)


@pytest.mark.django_db(transaction=True)
def test_ratings_that_wait_share_a_commit(monkeypatch):
    agent = Agent.objects.create(name="busy")
    traces = [make_trace(agent, f"question {number}") for number in range(6)]
    seen, outcomes = rate_together(monkeypatch, [by("anna", trace) for trace in traces])
    assert seen.sizes == [1, 5]
    assert all(outcome.created for outcome in outcomes)
    assert Feedback.objects.filter(is_current=True).count() == 6


@pytest.mark.django_db(transaction=True)
def test_two_ratings_of_one_rater_in_one_group_leave_one_current(monkeypatch):
    trace, other = (make_trace(Agent.objects.create(name=name)) for name in ("one", "two"))
    rate_together(monkeypatch, [by("anna", other), by("anna", trace, notes="first"), by("anna", trace, notes="second")])
    assert trace.feedback.count() == 2
    assert trace.feedback.filter(is_current=True).count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_bad_rating_fails_alone(monkeypatch):
    """A key that was deleted shows at the commit; a trace that was deleted, before."""
    agent = Agent.objects.create(name="busy")
    good = [make_trace(agent, f"question {number}") for number in range(3)]
    gone = make_trace(agent, "deleted")
    Trace.objects.filter(pk=gone.pk).delete()
    key, _ = ApiKey.create(name="deleted", kind="secret")
    ApiKey.objects.all().delete()
    key.pk = 4711
    events = [*[by("anna", trace) for trace in good], by("anna", gone), by("ben", good[0], api_key=key)]
    _, outcomes = rate_together(monkeypatch, events)
    assert all(outcome.created for outcome in outcomes[:3])
    assert isinstance(outcomes[3], write.UnknownTrace)
    assert isinstance(outcomes[4], Exception)
    assert Feedback.objects.count() == 3


@pytest.mark.django_db(transaction=True)
def test_within_a_transaction_a_rating_belongs_to_it():
    trace = make_trace(Agent.objects.create(name="busy"))
    with transaction.atomic():
        write.rate(trace, rater="anna", scale="thumb", value=1, source="test")
        transaction.set_rollback(True)
    assert not Feedback.objects.exists()
