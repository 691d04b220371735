"""Servers live as long as the process that uses them, and no longer."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable

import psutil
import pytest
from django.conf import settings

from rl.environments.tools import ToolRegistry
from rl.environments.tools.mcp.tool import close_connections
from tests.environments.tools.mcp.conftest import quick

pytestmark = pytest.mark.process


USER = """
import json, multiprocessing, os, signal, sys
from rl.environments.tools import ToolRegistry
from rl.environments.tools.mcp.settings import servers_of
from rl.environments.tools.mcp.tool import mcp_tools

tools = ToolRegistry(mcp_tools(servers_of({"shop": {"command": json.loads(sys.argv[1])}})))

def tell() -> None:
    print(tools.call("process", {}), flush=True)

tell()
if sys.argv[2] == "forks":
    child = multiprocessing.get_context("fork").Process(target=tell)
    child.start()
    child.join()
    tell()
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run(ending: str) -> tuple[int, list[int]]:
    """Exit code of a process that uses a server, and the server's ids."""
    told = subprocess.run(
        [sys.executable, "-c", USER, json.dumps(quick({"name": "process"})), ending],
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.stderr == ""
    return told.returncode, [int(line) for line in told.stdout.split()]


def test_the_server_ends_with_its_process_and_a_fork_has_its_own():
    code, (first, forked, again) = run("forks")
    assert code == 0
    assert first == again != forked
    assert not any(psutil.pid_exists(pid) for pid in (first, forked))


def test_the_server_ends_when_its_process_is_killed():
    code, [server] = run("killed")
    assert code == -signal.SIGKILL
    if psutil.pid_exists(server):
        psutil.Process(server).wait(timeout=60)


def test_connections_that_were_closed_are_opened_by_the_next_call(make_tools: Callable[..., ToolRegistry]):
    tools = make_tools(command=quick({"name": "process"}))
    before = int(tools.call("process", {}))
    close_connections()
    assert not psutil.pid_exists(before)
    assert int(tools.call("process", {})) != before


@pytest.mark.usefixtures("impatient")
def test_a_server_that_does_not_go_is_killed(make_tools: Callable[..., ToolRegistry]):
    *_, script, listed = quick({"name": "process"})
    stays = (
        f"import runpy, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); sys.argv[1:] = [{listed!r}]; "
    )
    stays += f"runpy.run_path({script!r}); time.sleep(60)"
    server = int(make_tools(command=[sys.executable, "-c", stays]).call("process", {}))
    close_connections()
    assert not psutil.pid_exists(server)


@pytest.mark.parametrize("forgotten", ["mcp", "jsonschema", "httpx2"])
def test_environments_without_servers_do_not_import_the_package(forgotten: str):
    code = f"import sys, rl.environments.settings; sys.exit({forgotten!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=settings.BASE_DIR, check=False).returncode == 0
