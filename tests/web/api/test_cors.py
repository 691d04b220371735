"""Browsers may call from the pages that publishable keys name, and only the rating calls."""

from __future__ import annotations

import pytest
from django.test import Client

from rl.models import ApiKey, Trace
from tests.web.api.conftest import SHOP, Caller, key_for

RATING_CALLS = ["/api/v1/feedback/", "/api/v1/feedback/retract/", "/api/v1/ratings/", "/api/v1/ratings/sync/"]
EVIL = [
    "https://evil.example",
    "null",
    "http://shop.example",
    "https://shop.example.evil.example",
    "https://shop.example/x",
]
ALLOW = "access-control-allow-origin"
pytestmark = pytest.mark.django_db


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
