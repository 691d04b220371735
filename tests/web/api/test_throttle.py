import pytest
from django.test import Client
from rest_framework.settings import api_settings

from rl.models import ApiKey, Trace
from tests.web.api.conftest import MIDDLE_OF_A_MINUTE, SHOP, Caller, assert_problem, key_for

URL = "/api/v1/feedback/"
pytestmark = pytest.mark.django_db
RATING_CALLS = ["/api/v1/feedback/", "/api/v1/feedback/retract/", "/api/v1/ratings/", "/api/v1/ratings/sync/"]
EVIL = [
    "https://evil.example",
    "null",
    "http://shop.example",
    "https://shop.example.evil.example",
    "https://shop.example/x",
]
ALLOW = "access-control-allow-origin"


@pytest.fixture(autouse=True)
def _three_a_minute(settings, endless_minute):
    settings.API_REQUESTS_PER_MINUTE = 3


def statuses(caller: Caller, count: int, **headers: str) -> list[int]:
    return [caller.client.post(URL, "{}", "application/json", headers=headers).status_code for _ in range(count)]


def test_the_fourth_request_of_a_minute_waits(server: Caller):
    assert statuses(server, 3) == [400] * 3
    response = server.post(URL)
    assert_problem(response, 429)
    assert 1 <= int(response["retry-after"]) <= 60


def test_the_next_minute_starts_anew(server: Caller, monkeypatch):
    assert statuses(server, 4)[-1] == 429
    monkeypatch.setattr("rl.web.api.base.time.time", lambda: MIDDLE_OF_A_MINUTE + 60)
    assert statuses(server, 1) == [400]


def test_keys_are_counted_apart(server: Caller):
    statuses(server, 4)
    assert statuses(Caller(key_for(None)), 1) == [400]


def test_a_publishable_key_is_counted_by_address(publishable_key: str):
    first, second = Caller(publishable_key, SHOP), Caller(publishable_key, SHOP)
    second.client.defaults["REMOTE_ADDR"] = "203.0.113.7"
    assert statuses(first, 4)[-1] == 429
    assert statuses(second, 1) == [400]


def test_a_made_up_forwarded_address_does_not_help(shop: Caller):
    answers = [statuses(shop, 1, **{"x-forwarded-for": f"198.51.100.{n}"})[0] for n in range(4)]
    assert answers == [400, 400, 400, 429]


def test_behind_a_proxy_the_address_that_it_adds_counts(shop: Caller, monkeypatch):
    monkeypatch.setattr(api_settings, "NUM_PROXIES", 1)
    seen = [statuses(shop, 1, **{"x-forwarded-for": f"10.0.0.{n}, 198.51.100.9"})[0] for n in range(4)]
    assert seen == [400, 400, 400, 429]
    assert statuses(shop, 1, **{"x-forwarded-for": "10.0.0.1, 198.51.100.8"}) == [400]
    assert statuses(shop, 1, **{"x-forwarded-for": "\u00e9 \x01" + "x" * 5000}) == [400]


def test_the_page_may_read_that_it_must_wait(shop: Caller):
    statuses(shop, 3)
    response = shop.post(URL)
    assert response.status_code == 429
    assert response["access-control-allow-origin"] == SHOP


def preflight(path: str, origin: str):
    headers = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    return Client(headers=headers).options(path)


@pytest.mark.parametrize("path", RATING_CALLS)
def test_a_page_that_a_key_names_may_rate(publishable_key: str, path: str):
    response = preflight(path, SHOP)
    assert response.status_code == 200
    assert response[ALLOW] == SHOP
    assert set(response["access-control-allow-headers"].split(", ")) >= {"authorization", "content-type"}
    assert "access-control-allow-credentials" not in response
    assert "origin" in response["vary"].lower()


@pytest.mark.parametrize("path", RATING_CALLS)
@pytest.mark.parametrize("origin", EVIL)
def test_no_other_page_may(publishable_key: str, path: str, origin: str):
    assert ALLOW not in preflight(path, origin)


@pytest.mark.parametrize("path", ["/api/v1/traces/", "/api/schema/", "/admin/", "/login/"])
def test_no_other_address_may_be_called_from_a_page(publishable_key: str, path: str):
    assert ALLOW not in preflight(path, SHOP)
    assert ALLOW not in Client(headers={"origin": SHOP}).get(path)


def test_a_revoked_key_opens_nothing(publishable_key: str):
    ApiKey.objects.get().revoke()
    assert ALLOW not in preflight(RATING_CALLS[0], SHOP)


def test_the_page_may_read_answers_and_refusals(shop: Caller, trace: Trace):
    body = {"trace": str(trace.pk), "rater": "anna", "scale": "thumb", "value": 1}
    assert shop.post("/api/v1/feedback/", body)[ALLOW] == SHOP
    assert shop.post("/api/v1/feedback/", {})[ALLOW] == SHOP
    refused = Caller("pk_wrong", SHOP).post("/api/v1/feedback/", body)
    assert (refused.status_code, refused[ALLOW]) == (401, SHOP)


def test_an_evil_page_is_refused_and_may_not_read_why(publishable_key: str, trace: Trace):
    body = {"trace": str(trace.pk), "rater": "anna", "scale": "thumb", "value": 1}
    response = Caller(publishable_key, EVIL[0]).post("/api/v1/feedback/", body)
    assert response.status_code == 403
    assert ALLOW not in response


def test_a_secret_key_does_not_open_pages(agent):
    response = Caller(key_for(None), SHOP).post("/api/v1/feedback/", {})
    assert response.status_code == 400
    assert ALLOW not in response
