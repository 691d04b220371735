"""Virtual environments of their own for what only a test needs, and what must not be beside the product's packages."""

import hashlib
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import distributions
from pathlib import Path

from rl.base.locks import exclusive_lock
from tests.missing import missing

ROOT = Path(__file__).resolve().parents[2]


def environment_of(name: str, borrows: bool = False) -> Path:
    """The interpreter of ``.venv-<name>``, with the packages of ``tests/requirements-<name>.lock``, or ``.txt`` where
    there is no lock; made once. ``borrows``: it has the product's packages too, where they are."""
    packages, home = ROOT / f"tests/requirements-{name}.lock", ROOT / f".venv-{name}"
    packages = packages if packages.exists() else packages.with_suffix(".txt")
    made_for = home / "packages.sha256"
    digest = hashlib.sha256(packages.read_bytes()).hexdigest()
    with exclusive_lock(home.with_name(f"{home.name}.lock")):
        if not made_for.exists() or made_for.read_text() != digest:
            shutil.rmtree(home, ignore_errors=True)
            _make(home, packages, borrows)
            made_for.write_text(digest)
    return home / "bin/python"


def _make(home: Path, packages: Path, borrows: bool) -> None:
    """uv takes a tenth of the time that pip does."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    install = [str(Path(sys.executable).with_name("uv")), "pip", "install", "-q", "--python", str(home / "bin/python")]
    if borrows:
        install += ["--excludes", str(_borrow(home))]
    done = subprocess.run([*install, "-r", str(packages)], capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(home)
        missing(f"what {packages.relative_to(ROOT)} names ({done.stderr.strip().splitlines()[-1]})")


def _borrow(home: Path) -> Path:
    """A list of what is not installed again: torch alone would take minutes."""
    [its_packages] = home.glob("lib/python*/site-packages")
    (its_packages / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    names = home / "borrowed.txt"
    names.write_text("\n".join(sorted({package.name for package in distributions()})))
    return names
