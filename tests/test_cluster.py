"""The queue as processes of their own that are killed."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from django.db import connection

from tests.commands.site import Site, kill_session
from tests.serving.gateway.conftest import copy_database
from tests.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.slow]
WORKERS = 2


@pytest.fixture
def site(tmp_path: Path, django_db_setup) -> Site:
    site = Site(tmp_path / "data")
    site.data.mkdir()
    if connection.vendor == "sqlite":
        copy_database(Path(connection.settings_dict["NAME"]), site)
    else:
        site.run("migrate", "--verbosity", "0")
    return site


@pytest.fixture
def queue(site: Site) -> Iterator[psutil.Process]:
    process = site.start("qcluster")
    yield psutil.Process(process.pid)
    kill_session(process)


def children(queue: psutil.Process) -> list[psutil.Process]:
    """All of them: Python's resource tracker, the sentinel, its workers, and the two that bring tasks and take results."""
    found = queue.children(recursive=True)
    return found if len(found) == WORKERS + 4 else []


def are_gone(processes: list[psutil.Process]) -> bool:
    return not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes)


def test_a_killed_queue_takes_its_processes_along(queue: psutil.Process):
    others = until(lambda: children(queue))
    queue.kill()
    until(lambda: are_gone(others))


def test_a_killed_worker_ends_the_queue_so_that_the_service_manager_starts_it_anew(queue: psutil.Process):
    """It may have held the lock that the others wait for."""
    others = until(lambda: children(queue))
    worker = next(each for each in others if each.ppid() != queue.pid)
    worker.kill()
    until(lambda: are_gone([queue, *others]))
