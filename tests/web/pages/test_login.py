from __future__ import annotations

from django.test import Client


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


def test_no_page_carries_an_inline_script_or_style(client: Client, bob, agent) -> None:
    client.force_login(bob)
    for address in ("/", "/rate/", "/admin/", "/admin/rl/agent/add/"):
        text = client.get(address, follow=True).content.decode()
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
