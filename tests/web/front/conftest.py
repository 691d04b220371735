from collections.abc import Iterator

import pytest

from tests.serving.gateway.upstream_double import UpstreamDouble, upstream_double
from tests.web.front.server import Server, prepared_site, served


@pytest.fixture(scope="session")
def prepared(tmp_path_factory, django_db_setup):
    return prepared_site(tmp_path_factory.mktemp("front"))


@pytest.fixture(scope="session")
def server(prepared) -> Iterator[Server]:
    with served(
        *prepared,
        DEBUG="0",
        HTTPS="0",
        ALLOWED_HOSTS="127.0.0.1",
        HEADER_TIMEOUT="2",
        REQUEST_TIMEOUT="4",
        REQUEST_MIN_RATE="1000",
    ) as found:
        yield found


@pytest.fixture(scope="module")
def upstream() -> Iterator[UpstreamDouble]:
    with upstream_double() as double:
        yield double
