"""Signing in writes once, where the password was right: each time that something is written may have to wait for others."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from backend.sessions import SessionStore


@pytest.mark.django_db(transaction=True)
def test_a_sign_in_is_one_transaction():
    User.objects.create_user("alice", password="alice-rates-answers")
    client = Client()
    form = {"username": "alice", "password": "alice-rates-answers"}
    with CaptureQueriesContext(connection) as statements:
        assert client.post("/login/", form)["Location"] == "/"
    said = [row["sql"].split()[0] for row in statements]
    written = [number for number, word in enumerate(said) if word in ("INSERT", "UPDATE", "DELETE")]
    assert written
    assert said.count("BEGIN") == said.count("COMMIT") == 1, said
    assert said.index("BEGIN") < written[0]
    assert written[-1] < said.index("COMMIT")
    assert client.get("/login/").status_code == 302  # to the start: he is signed in


@pytest.mark.django_db
def test_a_session_is_stored_again_where_it_has_changed():
    session = SessionStore()
    session["a"] = [1]
    session.save()
    with CaptureQueriesContext(connection) as statements:
        session.save()
    assert len(statements) == 0
    session["a"].append(2)
    session.save()
    assert SessionStore(session.session_key)["a"] == [1, 2]
    before = session.session_key
    session.cycle_key()
    session.save()
    assert SessionStore(session.session_key)["a"] == [1, 2]
    assert list(Session.objects.values_list("pk", flat=True)) == [session.session_key] != [before]
