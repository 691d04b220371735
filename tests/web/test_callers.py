from __future__ import annotations

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("address", ["/healthz", "/login/", "/api/v1/traces/", "/static/rl/ratchet-feedback.js", "/no"])
def test_every_answer_names_its_request(client: Client, address: str, settings):
    settings.WHITENOISE_USE_FINDERS = True
    first, second = client.get(address)["X-Request-ID"], client.get(address)["X-Request-ID"]
    assert len(first) == len(second) == 32
    assert first != second


def test_the_name_that_a_proxy_gave_is_kept(client: Client):
    assert client.get("/healthz", headers={"x-request-id": "01JD-req_7.a"})["X-Request-ID"] == "01JD-req_7.a"


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "a\nSet-Cookie: x", "é", "{}"])
def test_what_is_no_short_word_is_replaced(client: Client, given: str):
    assert len(client.get("/healthz", headers={"x-request-id": given})["X-Request-ID"]) == 32
