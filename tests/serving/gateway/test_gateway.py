import asyncio

import pytest
from django.db import OperationalError

from rl.serving.gateway import gateway
from rl.serving.gateway.refusals import Refusal


def test_where_the_database_does_not_answer_an_earlier_response_is_asked_for_later():
    def look() -> None:
        raise OperationalError("database is locked")

    with pytest.raises(Refusal) as refused:
        asyncio.run(gateway.in_database(look))
    assert (refused.value.status, refused.value.code) == (503, "storage_unavailable")
    assert int(refused.value.headers["Retry-After"]) > 0
