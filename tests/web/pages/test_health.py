from __future__ import annotations

import pytest
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client


def test_the_process_is_alive_without_the_database(client: Client, django_assert_num_queries, db) -> None:
    with django_assert_num_queries(0):
        answer = client.get("/healthz")
    assert (answer.status_code, answer.content, answer["Content-Type"]) == (200, b"ok\n", "text/plain; charset=utf-8")


def test_a_migrated_database_is_ready(client: Client, db) -> None:
    assert (client.get("/readyz").status_code, client.get("/readyz").content) == (200, b"ok\n")


def test_a_missing_migration_makes_it_not_ready(client: Client, db) -> None:
    MigrationRecorder(connection).migration_qs.filter(app="rl").delete()
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert b"not applied" in answer.content


@pytest.mark.parametrize("address", ["/healthz", "/readyz"])
def test_they_only_allow_reading_and_are_not_cached(client: Client, db, address: str) -> None:
    assert client.post(address).status_code == 405
    assert "no-store" in client.get(address)["Cache-Control"]


def test_a_database_that_does_not_answer_makes_it_not_ready(client: Client, db) -> None:
    def refuse(execute, sql, params, many, context):
        raise OperationalError("the disk is gone")

    with connection.execute_wrapper(refuse):
        answer = client.get("/readyz")
    assert (answer.status_code, answer.content) == (503, b"the database does not answer\n")
