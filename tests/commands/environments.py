"""Virtual environments of their own for what only a test needs, and what must not be beside the product's packages."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from rl.base.locks import exclusive_lock
from tests.missing import missing

ROOT = Path(__file__).resolve().parents[2]


def environment_of(name: str) -> Path:
    """The interpreter of ``.venv-<name>``, with the packages of ``tests/requirements-<name>.lock``, or ``.txt`` where
    there is no lock; made once."""
    packages, home = ROOT / f"tests/requirements-{name}.lock", ROOT / f".venv-{name}"
    packages = packages if packages.exists() else packages.with_suffix(".txt")
    made_for = home / "packages.sha256"
    digest = hashlib.sha256(packages.read_bytes()).hexdigest()
    with exclusive_lock(home.with_name(f"{home.name}.lock")):
        if not made_for.exists() or made_for.read_text() != digest:
            shutil.rmtree(home, ignore_errors=True)
            _install(home, packages)
            made_for.write_text(digest)
    return home / "bin/python"


def _install(home: Path, packages: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin/python"), "--disable-pip-version-check"]
    install = [*pip, "install", "-q", "--no-compile", "-r", str(packages)]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(home)
        missing(f"what {packages.relative_to(ROOT)} names ({done.stderr.strip().splitlines()[-1]})")
