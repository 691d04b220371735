import pytest
from django_q.models import OrmQ

from rl.models import Agent, Trace
from rl.scoring.stored import calculate
from tests.conftest import make_trace
from tests.web.api.conftest import Caller, assert_problem, key_for

URL = "/api/training/calculate-pending/"
pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _empty_queue(db):
    OrmQ.objects.all().delete()


def test_it_asks_the_queue_and_says_how_many_wait(server: Caller, trace: Trace):
    answer = server.post(URL)
    assert (answer.status_code, answer.json()) == (202, {"pending": 1})
    (message,) = OrmQ.objects.all()
    assert (message.task["func"], message.task["args"]) == ("rl.tasks.calculate_rewards", ())


def test_where_nothing_waits_nothing_is_queued(server: Caller, trace: Trace):
    calculate()
    assert server.post(URL).json() == {"pending": 0}
    assert not OrmQ.objects.exists()


def test_a_key_counts_the_traces_of_its_agent_only(agent: Agent, other_agent: Agent):
    for _ in range(2):
        make_trace(other_agent)
    assert Caller(key_for(agent)).post(URL).json() == {"pending": 0}
    assert Caller(key_for(other_agent)).post(URL).json() == {"pending": 2}


def test_what_it_does_not_know_is_refused(server: Caller):
    assert_problem(server.post(URL, {"agent": "support-chat"}), 400, "unknown field")
    assert_problem(server.raw(URL, "[]"), 400)
    assert server.get(URL).status_code == 405
