from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.operations.installations import ENGINES, FILLED, Plain, copied, empty


@pytest.fixture(scope="session", params=ENGINES)
def filled_site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plain]:
    with empty(request.param, tmp_path_factory.mktemp("filled") / "data") as site:
        site.run("shell", "--no-imports", "-c", FILLED)
        yield site


@pytest.fixture
def site(filled_site: Plain, tmp_path: Path) -> Iterator[Plain]:
    with copied(filled_site, tmp_path / "data") as made:
        yield made


@pytest.fixture
def elsewhere(site: Plain, tmp_path: Path) -> Iterator[Plain]:
    """Another machine, as it were: on the same kind of database, with nothing in it."""
    with empty("postgresql" if hasattr(site, "url") else "sqlite", tmp_path / "elsewhere") as made:
        yield made
