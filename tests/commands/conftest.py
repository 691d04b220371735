from __future__ import annotations

import pytest

from tests.commands.site import QUICK, Site, prepare


@pytest.fixture(scope="session")
def prepared_site(tmp_path_factory) -> Site:
    return prepare(tmp_path_factory.mktemp("site") / "data", QUICK)


@pytest.fixture
def site(prepared_site: Site, tmp_path) -> Site:
    """A fresh copy: demo data, the tiny model, nothing trained."""
    return prepared_site.copy(tmp_path / "data")
