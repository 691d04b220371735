"""On PostgreSQL: answers flow while a table is locked and after the server has ended every connection."""

import os
from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection

from tests.postgres import OnPostgres, made
from tests.serving.gateway.conftest import Gateway, filled, serving
from tests.serving.gateway.upstream_double import UpstreamDouble
from tests.waiting import until

pytestmark = [
    pytest.mark.process,
    pytest.mark.database,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="for PostgreSQL"),
]


@pytest.fixture(scope="module")
def gateway(upstream: UpstreamDouble, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway") / "data"
    folder.mkdir()
    with made(os.environ["DATABASE_URL"]) as url:
        site = OnPostgres(folder, url)
        with serving(site, filled(site, upstream), upstream) as found:
            yield found


def stored(gateway: Gateway, ids: list[str]) -> bool:
    """All of them are traces, and no file is left."""
    ((count,),) = gateway.site.query("SELECT COUNT(*) FROM rl_trace WHERE id::text = ANY(%s)", ids)
    return count == len(ids) and not gateway.pending


def test_answers_become_traces_of_their_arms(gateway: Gateway):
    ids = [gateway.say("hello", model="split", user=f"user-{number}").id for number in range(12)]
    until(lambda: stored(gateway, ids))
    counted = dict(gateway.site.query("SELECT arm_id, COUNT(*) FROM rl_trace WHERE arm_id IS NOT NULL GROUP BY 1"))
    assert sum(counted.values()) == 12
    assert set(counted) == set(gateway.arms["split"].values())
    assert dict(gateway.site.query("SELECT id, requests FROM rl_arm WHERE requests > 0")) == counted


def test_a_locked_table_holds_no_answer_up_and_the_traces_follow(gateway: Gateway):
    with psycopg.connect(gateway.site.url) as database:
        database.execute("LOCK TABLE rl_trace IN ACCESS EXCLUSIVE MODE")
        ids = [gateway.say("while it is locked").id for _ in range(5)]
        until(lambda: len(gateway.pending) == 5)
    until(lambda: stored(gateway, ids))


def test_connections_that_the_server_ends_are_made_anew(gateway: Gateway):
    with psycopg.connect(gateway.site.url) as database:
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    ids = [gateway.say("after a restart").id for _ in range(3)]
    until(lambda: stored(gateway, ids))
