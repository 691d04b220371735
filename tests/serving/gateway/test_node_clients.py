"""Clients in JavaScript, as their users install them."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.missing import missing
from tests.once import made_once
from tests.serving.gateway.conftest import Gateway

pytestmark = [pytest.mark.process, pytest.mark.slow]  # npm installs first
HERE = Path(__file__).parent / "node"


def test_what_each_client_gets_is_stored_under_the_id_that_it_has(gateway: Gateway, tmp_path: Path):
    script = with_clients(HERE / "clients.mjs", tmp_path)
    printed = run("node", script, gateway.url, gateway.keys["all"], cwd=tmp_path)
    results = json.loads(printed.strip().split("\n")[-1])  # behind warnings of clients
    assert {name: text for name, (answer_id, text) in results.items() if answer_id is None} == {}
    assert len(results) == 9
    for name, (answer_id, text) in results.items():
        trace = gateway.trace(answer_id.removeprefix("resp_").removeprefix("msg_"))
        if name.endswith("tools"):
            assert [step["result"] for step in trace["tool_calls"]] == [text] == ["it left"]
        else:
            assert trace["response"] == text


def with_clients(script: Path, folder: Path) -> str:
    """The name of a copy of the script in the folder, which may import all of them."""
    if shutil.which("npm") is None:
        missing("npm", "nodejs npm")
    (folder / "node_modules").symlink_to(made_once("node-clients", _install) / "node_modules")
    shutil.copy(script, folder)
    return script.name


def _install(folder: Path) -> None:
    shutil.copytree(HERE, folder)
    run("npm", "ci", "--ignore-scripts", "--prefer-offline", cwd=folder)


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
