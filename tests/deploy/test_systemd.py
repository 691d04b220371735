"""The units of systemd, as systemd itself reads them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import get_commands, load_command_class

from tests.missing import missing

ROOT = Path(settings.BASE_DIR)
UNITS = sorted((ROOT / "deploy/systemd").iterdir())
SERVICES = [unit for unit in UNITS if unit.suffix == ".service"]
MOST_EXPOSED = {"ratchet-web.service": 2.0, "ratchet-queue.service": 5.5, "ratchet-backup.service": 2.0}
"""Of 10, as systemd counts. The queue's runs need devices, and namespaces for the sandbox."""
SETUP = (ROOT / "docs/setup.md").read_text()


@pytest.fixture
def units(tmp_path: Path) -> list[Path]:
    """With a program that is there on this machine."""
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze", "systemd")
    for unit in UNITS:
        text = re.sub(r"(?<==)/opt/ratchet/\.venv/bin/python", "/bin/true", unit.read_text())
        (tmp_path / unit.name).write_text(text.replace("WorkingDirectory=/opt/ratchet", f"WorkingDirectory={ROOT}"))
    return [tmp_path / unit.name for unit in UNITS]


@pytest.mark.process
def test_systemd_understands_every_line(units: list[Path]):
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.process
@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_services_are_no_more_exposed_than_they_must_be(units: list[Path], service: Path):
    (unit,) = (each for each in units if each.name == service.name)
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", unit]
    done = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert found is not None, done.stderr
    assert float(found[1]) <= MOST_EXPOSED[service.name]


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_a_service_runs_a_command_that_exists_as_its_own_user(service: Path):
    text = service.read_text()
    found = re.search(r"^ExecStart=/opt/ratchet/\.venv/bin/python manage\.py (\w+)(.*)$", text, re.MULTILINE)
    assert found is not None
    parser = load_command_class(get_commands()[found[1]], found[1]).create_parser("manage.py", found[1])
    parser.parse_args(found[2].split())
    for line in ("User=ratchet", "NoNewPrivileges=yes", "ProtectSystem=strict", "UMask=0077", "StateDirectory=ratchet"):
        assert f"\n{line}\n" in text


def test_stopping_the_queue_does_not_stop_runs():
    assert "\nKillMode=process\n" in (ROOT / "deploy/systemd/ratchet-queue.service").read_text()


def test_the_setup_page_installs_every_unit():
    assert "cp deploy/systemd/* /etc/systemd/system/" in SETUP
    started = re.search(r"^systemctl enable --now (.+)$", SETUP, re.MULTILINE)
    assert started is not None
    installed = [unit.name for unit in UNITS if "[Install]" in unit.read_text()]
    assert sorted(started[1].split()) == sorted(name.removesuffix(".service") for name in installed)
