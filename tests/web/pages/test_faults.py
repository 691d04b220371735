"""What a caller gets when the database refuses, wherever it does."""

import errno
import sqlite3

import pytest
from django.db import OperationalError, connection
from django.test import Client

from tests.web.api.conftest import assert_problem

pytestmark = pytest.mark.django_db


def refusing(code: int, only: str = ""):
    def refuse(execute, sql, params, many, context):
        if only not in sql:
            return execute(sql, params, many, context)
        cause = sqlite3.OperationalError("it refuses")
        cause.sqlite_errorcode = code
        raise OperationalError("it refuses") from cause

    return connection.execute_wrapper(refuse)


CASES = [(sqlite3.SQLITE_FULL, 507, "30", "disk"), (sqlite3.SQLITE_BUSY, 503, "5", "database")]


@pytest.mark.parametrize(("code", "status", "wait", "names"), CASES)
def test_the_api_answers_with_a_problem_and_when_to_come_again(code, status, wait, names, trace, secret_key):
    body = {"trace": str(trace.pk), "rater": "anna", "scale": "thumb", "value": 1}
    headers = {"authorization": f"Bearer {secret_key}"}
    with refusing(code, only="INSERT"):
        answer = Client().post("/api/v1/feedback/", body, content_type="application/json", headers=headers)
    problem = assert_problem(answer, status)
    assert (answer["Retry-After"], names in problem["detail"]) == (wait, True)
    assert problem["type"] in ("urn:ratchet:problem:disk-full", "urn:ratchet:problem:database-unavailable")


@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.parametrize(("code", "status", "wait", "names"), CASES)
def test_a_page_explains_it_without_the_database(code, status, wait, names, debug, staff, settings):
    settings.DEBUG = debug
    staff.raise_request_exception = False
    with refusing(code):
        answer = staff.get("/traces/")
    assert (answer.status_code, answer["Retry-After"]) == (status, wait)
    assert f"The {names} of this site" in answer.content.decode()
    assert "Nothing of what you just sent was stored" in answer.content.decode()


def test_what_middleware_raises_is_explained_too(staff, settings):
    """The session is saved after the view."""
    settings.DEBUG, settings.SESSION_SAVE_EVERY_REQUEST = False, True
    staff.raise_request_exception = False
    with refusing(sqlite3.SQLITE_FULL, only="UPDATE"):
        answer = staff.get("/rate/")
    assert answer.status_code == 507
    assert "The disk of this site is full" in answer.content.decode()


def test_what_any_other_middleware_raises_is_explained_too(client, monkeypatch):
    def refuse(request):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("rl.web.middleware.client_network", refuse)
    client.raise_request_exception = False
    answer = client.get("/api/v1/traces/")
    assert (answer.status_code, answer["Content-Type"]) == (507, "application/problem+json")


def test_a_bug_stays_a_bug(staff, settings):
    settings.DEBUG = False
    staff.raise_request_exception = False
    with refusing(sqlite3.SQLITE_ERROR):
        assert staff.get("/traces/").status_code == 500
