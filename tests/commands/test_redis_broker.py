"""With REDIS_URL the queue's messages go through Redis."""

import os

import pytest
import redis

from tests.commands.site import kill_session
from tests.missing import missing

pytestmark = pytest.mark.process


URL = os.environ.get("TEST_REDIS_URL", "redis://127.0.0.1:6379/9")


@pytest.fixture
def broker() -> redis.Redis:
    client = redis.Redis.from_url(URL)
    try:
        client.flushdb()
    except redis.ConnectionError:
        missing("Redis (TEST_REDIS_URL names it)", "redis-server")
    return client


@pytest.mark.slow
def test_a_run_queued_through_redis_is_started_and_ends(site, broker):
    site.shorten(2)
    assert site.json("online_learner", "run-now", "--agent", "support-chat", REDIS_URL=URL) == {"run": 1}
    assert broker.llen("django_q:ratchet:q") == 1
    assert site.query("SELECT COUNT(*) FROM django_q_ormq") == [(0,)]
    queue = site.fork("qcluster", REDIS_URL=URL)
    try:
        (state,) = site.wait_for("SELECT state FROM rl_trainingrun WHERE finished_at IS NOT NULL")
    finally:
        kill_session(queue)
    assert state == "succeeded", (site.data / "runs" / "1" / "log.txt").read_text()
