import json
import subprocess
from pathlib import Path

import pytest

from tests.commands.site import QUICK, TRAIN, Site, prepare
from tests.once import made_once


@pytest.fixture(scope="session")
def prepared_site() -> Site:
    """Demo data, the tiny model, nothing trained; how fast this machine is with it is known. Tests take copies."""

    def make(data: Path) -> None:
        prepare(data, QUICK).run("train_dpo", "--agent", "support-chat", "--dry-run")

    return Site(made_once("prepared-site", make))


@pytest.fixture(scope="session")
def briefly_trained_site(prepared_site: Site) -> Site:
    """With a version that has learned next to nothing. Tests take copies."""

    def make(data: Path) -> None:
        prepared_site.copy(data).run("train_dpo", "--agent", "support-chat", "--max-steps", "2")

    return Site(made_once("briefly-trained-site", make))


@pytest.fixture(scope="session")
def trained_site(prepared_site: Site) -> tuple[Site, subprocess.CompletedProcess[str]]:
    """With a version that has learned what the demo's raters like, and what the command told. Tests take copies."""

    def make(folder: Path) -> None:
        done = prepared_site.copy(folder / "data").run(*TRAIN, "--json")
        (folder / "told.json").write_text(json.dumps([done.stdout, done.stderr]))

    folder = made_once("trained-site", make)
    told = json.loads((folder / "told.json").read_text())
    return Site(folder / "data"), subprocess.CompletedProcess(TRAIN, 0, *told)


@pytest.fixture
def site(prepared_site: Site, tmp_path: Path) -> Site:
    return prepared_site.copy(tmp_path / "data")
