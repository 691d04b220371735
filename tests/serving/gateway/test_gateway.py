import asyncio

import pytest
from django.db import OperationalError

from rl.serving.gateway import gateway
from rl.serving.gateway.refusals import Refusal


def test_each_key_has_its_own_count_which_starts_anew_every_minute(settings, monkeypatch):
    settings.API_REQUESTS_PER_MINUTE = 2
    now = [600.0]
    monkeypatch.setattr(gateway.time, "time", lambda: now[0])
    limit = gateway.GatewayRequestRate()
    assert [limit.wait(1) for _ in range(3)] == [0, 0, 60]
    now[0] = 650
    assert (limit.wait(1), limit.wait(2)) == (10, 0)
    now[0] = 660
    assert limit.wait(1) == 0


def test_where_the_database_does_not_answer_an_earlier_response_is_asked_for_later():
    def look() -> None:
        raise OperationalError("database is locked")

    with pytest.raises(Refusal) as refused:
        asyncio.run(gateway.in_database(look))
    assert (refused.value.status, refused.value.code) == (503, "storage_unavailable")
    assert int(refused.value.headers["Retry-After"]) > 0
