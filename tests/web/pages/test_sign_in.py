"""Signing in: what it writes; and five wrong passwords for one name from one address, and what follows."""

from datetime import timedelta

import pytest
from axes.models import AccessAttempt, AccessLog
from django.conf import settings as site
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.settings import api_settings

from backend.sessions import SessionStore
from rl.web.client_address import client_address, client_network

PASSWORD = "alice-rates-answers"
LOGINS = ["/login/", "/admin/login/"]
pytestmark = [pytest.mark.database, pytest.mark.django_db]


def try_to_sign_in(client: Client, password: str = "wrong", name: str = "alice", address: str = "/login/", **headers):
    return client.post(address, {"username": name, "password": password}, headers=headers)


def lock(client: Client, **where) -> None:
    statuses = [try_to_sign_in(client, **where).status_code for _ in range(5)]
    assert statuses == [200, 200, 200, 200, 429]


def later(minutes: float) -> None:
    """Moves the failures back in time."""
    for attempt in AccessAttempt.objects.all():
        AccessAttempt.objects.filter(pk=attempt.pk).update(
            attempt_time=attempt.attempt_time - timedelta(minutes=minutes)
        )


@pytest.mark.parametrize("address", LOGINS)
def test_the_sixth_try_is_refused_even_with_the_right_password(client: Client, bob, address: str) -> None:
    lock(client, name="bob", address=address)
    answer = try_to_sign_in(client, "bob-runs-this-place", "bob", address)
    assert answer.status_code == 429
    assert "_auth_user_id" not in client.session


@pytest.mark.parametrize("address", LOGINS)
def test_the_page_says_when_to_try_again(client: Client, alice, address: str) -> None:
    lock(client, address=address)
    later(minutes=5.5)
    answer = try_to_sign_in(client, address=address)
    text = answer.content.decode()
    assert "Try again in <strong>10 minutes</strong>" in text
    assert f"{answer.context['ends']:%H:%M} UTC" in text
    assert abs(answer.context["ends"] - timezone.now() - timedelta(minutes=9.5)) < timedelta(seconds=30)
    assert 560 <= int(answer["Retry-After"]) <= 570
    assert "default-src 'none'" in answer["Content-Security-Policy"]
    assert "no-store" in answer["Cache-Control"]


def test_both_sign_in_pages_count_together(client: Client, alice) -> None:
    for address in [*LOGINS, *LOGINS]:
        assert try_to_sign_in(client, address=address).status_code == 200
    assert try_to_sign_in(client, address="/admin/login/").status_code == 429
    assert try_to_sign_in(client, address="/login/").status_code == 429


def test_the_lock_ends_after_a_quarter_of_an_hour(client: Client, alice) -> None:
    lock(client)
    later(minutes=15.1)
    assert try_to_sign_in(client, PASSWORD).status_code == 302
    assert not AccessAttempt.objects.exists()


def test_tries_during_the_lock_do_not_make_it_longer(client: Client, alice) -> None:
    lock(client)
    later(minutes=14)
    assert try_to_sign_in(client).status_code == 429
    later(minutes=1.1)
    assert try_to_sign_in(client, PASSWORD).status_code == 302


def test_the_right_password_forgets_the_wrong_ones(client: Client, alice) -> None:
    for _ in range(2):
        assert [try_to_sign_in(client).status_code for _ in range(4)] == [200] * 4
        assert try_to_sign_in(client, PASSWORD).status_code == 302
        client.logout()


def test_another_name_and_another_address_are_not_locked(client: Client, alice, charlie) -> None:
    lock(client)
    assert try_to_sign_in(Client(), "charlie-is-a-stranger", "charlie").status_code == 302
    assert try_to_sign_in(Client(REMOTE_ADDR="203.0.113.7"), PASSWORD).status_code == 302


def test_another_browser_at_the_same_address_is_locked_too(client: Client, alice) -> None:
    for number in range(4):
        assert try_to_sign_in(client, **{"user-agent": f"browser {number}"}).status_code == 200
    assert try_to_sign_in(client, **{"user-agent": "browser 5"}).status_code == 429
    assert "15 minutes" in try_to_sign_in(client, PASSWORD).content.decode()


def test_the_lock_ends_when_the_oldest_failures_are_too_old_to_count(alice) -> None:
    for number in range(5):
        for _ in range(4):
            answer = try_to_sign_in(Client(REMOTE_ADDR=f"203.0.113.{number}"))
        later(minutes=1)
    assert answer.status_code == 429
    assert "10 minutes" in try_to_sign_in(Client()).content.decode()


def test_a_name_that_does_not_exist_is_locked_like_any_other(client: Client) -> None:
    lock(client, name="nobody")


def test_people_who_are_signed_in_stay_so(client: Client, alice) -> None:
    client.force_login(alice)
    lock(Client())
    assert client.get("/rate/").status_code == 200


def test_a_very_long_name_is_only_a_wrong_one(client: Client) -> None:
    assert try_to_sign_in(client, name="x" * 5000).status_code == 200
    assert AccessAttempt.objects.get().username == "x" * 150


def test_the_database_keeps_no_password_and_no_list_of_sign_ins(client: Client, alice) -> None:
    try_to_sign_in(client, "my-secret-guess")
    attempt = AccessAttempt.objects.get()
    assert "my-secret-guess" not in f"{attempt.post_data} {attempt.get_data}"
    try_to_sign_in(client, PASSWORD)
    assert not AccessLog.objects.exists()


def test_the_log_names_the_address_but_not_what_was_typed(client: Client, alice, caplog) -> None:
    lock(client, name="typed-into-the-wrong-field")
    assert "127.0.0.1" in caplog.text
    assert "typed-into-the-wrong-field" not in caplog.text


def test_a_lock_is_ended_by_a_command(client: Client, alice) -> None:
    lock(client)
    call_command("axes_reset_username", "alice", verbosity=0)
    assert try_to_sign_in(client, PASSWORD).status_code == 302


def test_staff_see_the_failures_and_change_nothing(client: Client, bob) -> None:
    try_to_sign_in(client, name="<b>alice")
    client.force_login(bob)
    attempt = AccessAttempt.objects.get()
    text = client.get("/admin/axes/accessattempt/").content.decode()
    assert "&lt;b&gt;alice" in text
    page = client.get(f"/admin/axes/accessattempt/{attempt.pk}/change/").content.decode()
    assert "csrfmiddlewaretoken=" not in page
    assert client.post(f"/admin/axes/accessattempt/{attempt.pk}/change/", {"username": "x"}).status_code == 403
    assert client.post(f"/admin/axes/accessattempt/{attempt.pk}/delete/", {"post": "yes"}).status_code == 403
    assert client.get("/admin/axes/accesslog/").status_code == 404


def test_the_pages_cost_no_query_more(client: Client, alice, django_assert_num_queries) -> None:
    client.force_login(alice)
    with django_assert_num_queries(2):  # the session and its user
        client.get("/login/")


# --- whose address ----------------------------------------------------------------------------------------------------


def test_a_made_up_forwarded_address_does_not_help(client: Client, alice) -> None:
    for number in range(4):
        try_to_sign_in(client, **{"x-forwarded-for": f"198.51.100.{number}"})
    assert try_to_sign_in(client, **{"x-forwarded-for": "198.51.100.9"}).status_code == 429


def test_behind_a_proxy_the_address_that_it_adds_counts(client: Client, alice, monkeypatch) -> None:
    monkeypatch.setattr(api_settings, "NUM_PROXIES", 1)
    for number in range(4):
        try_to_sign_in(client, **{"x-forwarded-for": f"10.0.0.{number}, 198.51.100.9"})
    assert try_to_sign_in(client, **{"x-forwarded-for": "10.9.9.9, 198.51.100.9"}).status_code == 429
    assert try_to_sign_in(client, PASSWORD, **{"x-forwarded-for": "10.0.0.1, 198.51.100.8"}).status_code == 302


@pytest.mark.parametrize("forwarded", ["", "unknown", "198.51.100.9:443", "é \x01" + "x" * 5000, "<script>"])
def test_what_is_no_address_counts_as_the_proxys(client: Client, alice, monkeypatch, forwarded: str) -> None:
    monkeypatch.setattr(api_settings, "NUM_PROXIES", 1)
    assert try_to_sign_in(client, **{"x-forwarded-for": forwarded}).status_code == 200
    assert AccessAttempt.objects.get().ip_address == "127.0.0.1"


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2::9", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", None),
    ],
)
def test_an_ipv6_address_stands_for_its_network(address: str, network: str | None) -> None:
    request = RequestFactory().get("/", REMOTE_ADDR=address)
    assert (client_address(request), client_network(request)) == (address, network)


def test_without_an_address_the_name_alone_is_locked(alice) -> None:
    client = Client(REMOTE_ADDR="")
    lock(client)
    assert try_to_sign_in(client, PASSWORD).status_code == 429


def test_the_limits_are_those_of_the_settings() -> None:
    assert site.AXES_FAILURE_LIMIT == 5
    assert timedelta(minutes=15) == site.AXES_COOLOFF_TIME
    assert site.AUTHENTICATION_BACKENDS[0] == "axes.backends.AxesStandaloneBackend"


# --- what is written ---------------------------------------------------------------------------------------------------


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


def test_signing_in_goes_where_one_wanted_to_go(client: Client, alice) -> None:
    answer = client.post("/login/", {"username": "alice", "password": "alice-rates-answers", "next": "/rate/"})
    assert (answer.status_code, answer["Location"]) == (302, "/rate/")


def test_the_form_keeps_the_place_and_refuses_other_sites(client: Client, alice) -> None:
    assert 'name="next" value="/rate/"' in client.get("/login/?next=/rate/").content.decode()
    answer = client.post(
        "/login/", {"username": "alice", "password": "alice-rates-answers", "next": "https://evil.example/"}
    )
    assert answer["Location"] == "/"


def test_a_wrong_password_is_told_and_the_name_is_kept(client: Client, alice) -> None:
    answer = client.post("/login/", {"username": "alice", "password": "wrong"})
    text = answer.content.decode()
    assert 'role="alert"' in text
    assert 'value="alice"' in text


def test_signing_out_takes_a_post(client: Client, alice) -> None:
    client.force_login(alice)
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/rate/")["Location"] == "/login/?next=/rate/"


def test_no_page_carries_an_inline_script_or_style(staff: Client, agent) -> None:
    for address in ("/", "/rate/", "/admin/", "/admin/rl/agent/add/"):
        text = staff.get(address, follow=True).content.decode()
        assert "<style" not in text, address
        assert " style=" not in text, address
        assert "<script>" not in text, address
        assert " onclick=" not in text, address


def test_every_page_forbids_what_is_not_its_own(client: Client, bob) -> None:
    policy = client.get("/login/")["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_missing_page_is_the_sites_own(client: Client, db) -> None:
    answer = client.get("/no/such/page/")
    assert answer.status_code == 404
    assert "nothing at this address" in answer.content.decode()
