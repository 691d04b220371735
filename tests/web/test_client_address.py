from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.test import RequestFactory

from rl.web.client_address import DIGITS, address_digest


@pytest.fixture
def today(monkeypatch) -> list[datetime]:
    moments = [datetime(2026, 6, 1, 12, tzinfo=UTC)]
    monkeypatch.setattr("rl.web.client_address.timezone.now", lambda: moments[-1])
    return moments


def digest(address: str) -> str:
    return address_digest(RequestFactory().get("/", REMOTE_ADDR=address))


def test_the_hash_of_an_address_tells_one_from_another_and_names_none(today: list[datetime], settings):
    here = digest("192.0.2.7")
    assert (len(here), here) == (DIGITS, digest("192.0.2.7"))
    assert here != digest("192.0.2.8")
    assert digest("2001:db8::1") == digest("2001:db8::ffff") != digest("2001:db8:1::1")
    assert digest("") == ""
    settings.SECRET_KEY = "another"
    assert here != digest("192.0.2.7")


def test_it_is_another_one_each_day(today: list[datetime]):
    here = digest("192.0.2.7")
    today.append(datetime(2026, 6, 2, 0, 0, 1, tzinfo=UTC))
    assert here != digest("192.0.2.7")
