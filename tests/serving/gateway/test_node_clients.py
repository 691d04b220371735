"""Clients in JavaScript, as their users install them."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.missing import missing
from tests.serving.gateway.conftest import Gateway

pytestmark = [pytest.mark.process, pytest.mark.slow]  # npm installs first
HERE = Path(__file__).parent / "node"


def test_what_each_client_gets_is_stored_under_the_id_that_it_has(gateway: Gateway):
    folder = installed()
    printed = run("node", "clients.mjs", gateway.url, gateway.keys["all"], cwd=folder)
    results = json.loads(printed.strip().split("\n")[-1])  # behind warnings of clients
    assert {name: text for name, (answer_id, text) in results.items() if answer_id is None} == {}
    assert len(results) == 9
    for name, (answer_id, text) in results.items():
        trace = gateway.trace(answer_id.removeprefix("resp_").removeprefix("msg_"))
        if name.endswith("tools"):
            assert [step["result"] for step in trace["tool_calls"]] == [text] == ["it left"]
        else:
            assert trace["response"] == text


def installed() -> Path:
    """A folder in which scripts may import all of them."""
    if shutil.which("npm") is None:
        missing("npm", "nodejs npm")
    folder = Path(os.environ["RATCHET_TEST_ROOT"]) / "gateway-clients"
    shutil.copytree(HERE, folder, dirs_exist_ok=True)
    run("npm", "ci", "--ignore-scripts", "--prefer-offline", cwd=folder)
    return folder


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
