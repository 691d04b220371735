from collections.abc import Iterator

import pytest

from tests.evaluation.judges.judging_server import JudgingServer, judging_server


@pytest.fixture
def server() -> Iterator[JudgingServer]:
    with judging_server() as double:
        yield double
