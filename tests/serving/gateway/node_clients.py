"""Clients in JavaScript, as their users install them."""

import shutil
import subprocess
from functools import partial
from pathlib import Path

from tests.missing import missing
from tests.once import made_once

HERE = Path(__file__).parent


def with_clients(script: Path, folder: Path, listed: Path = HERE / "node") -> str:
    """The name of a copy of the script in the folder, which may import what ``listed`` has in its package.json."""
    with_packages(folder, listed)
    shutil.copy(script, folder)
    return script.name


def with_packages(folder: Path, listed: Path) -> None:
    if shutil.which("npm") is None:
        missing("npm", "nodejs npm")
    made = made_once(f"packages-of-{listed.parent.name}-{listed.name}", partial(_install, listed))
    (folder / "node_modules").symlink_to(made / "node_modules")


def _install(listed: Path, folder: Path) -> None:
    shutil.copytree(listed, folder)
    run("npm", "ci", "--ignore-scripts", "--prefer-offline", cwd=folder)


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
