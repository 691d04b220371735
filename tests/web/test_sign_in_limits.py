"""Neither one address with many names nor one name with many addresses guesses further, and no owner is locked out."""

from datetime import timedelta

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from rl.models import AuditEvent

pytestmark = pytest.mark.django_db
PASSWORD = "alice-rates-answers"
HERE, ELSEWHERE = "203.0.113.7", "198.51.100.9"


def try_to_sign_in(
    client: Client, password: str = "wrong", name: str = "alice", path: str = "/login/", **headers
) -> int:
    return client.post(path, {"username": name, "password": password}, headers=headers).status_code


def tries(number: int, *, names: list[str], addresses: list[str], path: str = "/login/") -> list[int]:
    """So many, each with the next name from the next address."""
    return [
        try_to_sign_in(Client(REMOTE_ADDR=addresses[i % len(addresses)]), name=names[i % len(names)], path=path)
        for i in range(number)
    ]


def many_addresses() -> list[str]:
    return [f"10.0.{number}.1" for number in range(50)]


@pytest.fixture
def known(alice: User) -> Client:
    """Alice's browser: she has signed in with it before, and has signed out."""
    client = Client(REMOTE_ADDR=HERE)
    assert try_to_sign_in(client, PASSWORD) == 302
    client.post("/logout/")
    return client


@pytest.mark.parametrize("path", ["/login/", "/admin/login/"])
def test_one_address_cannot_try_a_password_on_everybody(alice: User, path: str):
    names = [f"person{number}" for number in range(50)]
    assert tries(30, names=names, addresses=[ELSEWHERE], path=path).count(200) == 19
    assert try_to_sign_in(Client(REMOTE_ADDR=ELSEWHERE), PASSWORD, path=path) == 429
    assert try_to_sign_in(Client(REMOTE_ADDR=HERE), PASSWORD, path="/login/") == 302


@pytest.mark.parametrize("path", ["/login/", "/admin/login/"])
def test_many_addresses_cannot_guess_one_password(alice: User, path: str):
    assert tries(30, names=["alice"], addresses=many_addresses(), path=path).count(200) == 19
    assert try_to_sign_in(Client(REMOTE_ADDR=ELSEWHERE), PASSWORD, path=path) == 429


@pytest.mark.database
def test_both_limits_end_by_themselves(alice: User):
    tries(30, names=["alice"], addresses=many_addresses())
    tries(30, names=[f"person{number}" for number in range(50)], addresses=[ELSEWHERE])
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=16))
    assert try_to_sign_in(Client(REMOTE_ADDR=ELSEWHERE), PASSWORD) == 302


def test_an_account_of_ones_own_does_not_clear_what_was_tried_on_others(alice: User, charlie: User):
    names = [f"person{number}" for number in range(50)]
    assert tries(19, names=names, addresses=[ELSEWHERE]) == [200] * 19
    assert try_to_sign_in(Client(REMOTE_ADDR=ELSEWHERE), "charlie-is-a-stranger", "charlie") == 302
    assert try_to_sign_in(Client(REMOTE_ADDR=ELSEWHERE), name="person60") == 429


def test_the_owner_signs_in_from_a_known_browser_whatever_others_try(known: Client):
    tries(30, names=["alice"], addresses=many_addresses())
    tries(30, names=[f"person{number}" for number in range(50)], addresses=[HERE])
    assert try_to_sign_in(Client(REMOTE_ADDR=HERE), PASSWORD) == 429
    assert try_to_sign_in(known, PASSWORD) == 302


@pytest.mark.database
def test_a_known_browser_has_five_tries_too(known: Client):
    assert [try_to_sign_in(known) for _ in range(6)] == [200, 200, 200, 200, 429, 429]
    assert try_to_sign_in(known, PASSWORD) == 429
    answer = known.post("/login/", {"username": "alice", "password": PASSWORD})
    assert "15 minutes" in answer.content.decode()


@pytest.mark.database
def test_a_right_password_forgets_the_wrong_ones_of_that_browser_alone(known: Client):
    tries(4, names=["alice"], addresses=[ELSEWHERE])
    assert [try_to_sign_in(known) for _ in range(4)] == [200] * 4
    assert try_to_sign_in(known, PASSWORD) == 302
    assert list(AccessAttempt.objects.values_list("ip_address", "failures_since_start")) == [(ELSEWHERE, 4)]


def test_a_browser_is_known_for_the_name_that_signed_in_only(known: Client, charlie: User):
    tries(30, names=["charlie"], addresses=many_addresses())
    assert try_to_sign_in(known, "charlie-is-a-stranger", "charlie") == 429
    (cookie,) = [cookie for name, cookie in known.cookies.items() if name.startswith("device_")]
    known.cookies["device_" + "0" * 12] = cookie.value
    assert try_to_sign_in(known, "charlie-is-a-stranger", "charlie") == 429


@pytest.mark.database
def test_cookies_and_browsers_that_are_made_up_count_for_nothing(alice: User):
    tries(30, names=["alice"], addresses=many_addresses())
    client = Client(REMOTE_ADDR=ELSEWHERE)
    from rl.web.sign_in import _cookie

    for value in ("", "x", "eyJuYW1lIjoiYWxpY2UiLCJkZXZpY2UiOiIxIn0:1x:abc", "é"):
        client.cookies[_cookie("alice")] = value
        assert try_to_sign_in(client, PASSWORD, **{"user-agent": "device 1"}) == 429
    try_to_sign_in(Client(REMOTE_ADDR=ELSEWHERE), name="bob", **{"user-agent": "device 1"})
    assert not AccessAttempt.objects.exclude(user_agent="").exists()


def test_the_cookie_is_kept_from_scripts_and_from_other_sites(known: Client):
    (cookie,) = [cookie for name, cookie in known.cookies.items() if name.startswith("device_")]
    assert (cookie["httponly"], cookie["samesite"], cookie["max-age"]) == (True, "Lax", 180 * 86400)
    assert "alice" not in cookie.key


def test_the_command_that_ends_a_lock_ends_that_of_a_name(alice: User):
    tries(30, names=["alice"], addresses=many_addresses())
    call_command("axes_reset_username", "alice", verbosity=0)
    assert try_to_sign_in(Client(REMOTE_ADDR=ELSEWHERE), PASSWORD) == 302


def test_every_lock_is_in_the_audit_log(alice: User):
    tries(30, names=["alice"], addresses=many_addresses())
    row = AuditEvent.objects.get(action="locked_out")
    assert (row.target, row.details) == ("user alice", {"network": "10.0.19.1"})


def test_a_session_that_was_stolen_cannot_guess_the_password(client: Client, bob: User):
    client.force_login(bob)
    new = {"new_password1": "a-new-one-for-bob", "new_password2": "a-new-one-for-bob"}
    statuses = [client.post("/admin/password_change/", {"old_password": "wrong", **new}).status_code for _ in range(6)]
    assert statuses == [200, 200, 200, 200, 429, 429]
    right = {"old_password": "bob-runs-this-place", **new}
    assert client.post("/admin/password_change/", right).status_code == 429
    call_command("axes_reset_username", "bob", verbosity=0)
    assert client.post("/admin/password_change/", right).status_code == 302
    bob.refresh_from_db()
    assert bob.check_password("a-new-one-for-bob")


def test_changing_a_password_needs_staff(client: Client, alice: User):
    client.force_login(alice)
    assert client.get("/admin/password_change/").status_code == 302
