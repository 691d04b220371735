from __future__ import annotations

import pytest

from tests.commands.site import QUICK, Site, prepare


@pytest.fixture(scope="session")
def prepared_site(tmp_path_factory) -> Site:
    site = prepare(tmp_path_factory.mktemp("site") / "data", QUICK)
    site.run("train_dpo", "--agent", "support-chat", "--dry-run")  # times this machine, for all copies
    return site


@pytest.fixture
def site(prepared_site: Site, tmp_path) -> Site:
    """A fresh copy: demo data, the tiny model, nothing trained; how fast this machine is with it is known."""
    return prepared_site.copy(tmp_path / "data")
