"""The locked requirements are the pinned ones and all that they bring; the bill of materials lists them."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from django.conf import settings

LOCKS = ["requirements", "requirements-rl"]
_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^]]*\])?==([^\s;]+)", re.MULTILINE)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file: str) -> set[tuple[str, str]]:
    found = _PIN.findall((settings.BASE_DIR / file).read_text())
    return {(normal(name), version) for name, version in found}


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_is_in_the_lock(name: str):
    """After a change of the pins: deploy/lock."""
    assert sorted(pins(f"{name}.txt") - pins(f"{name}.lock")) == []


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_of_the_lock_has_hashes_and_a_version(name: str):
    text = (settings.BASE_DIR / f"{name}.lock").read_text()
    blocks = re.split(r"\n(?=\S)", re.sub(r"^\s*#.*\n?", "", text, flags=re.MULTILINE).strip())
    assert len(blocks) > len(pins(f"{name}.txt"))
    assert [block for block in blocks if not _PIN.match(block) or "--hash=sha256:" not in block] == []


def test_the_site_gets_the_same_versions_on_a_machine_that_trains():
    versions: dict[str, set[str]] = {}
    for name, version in pins("requirements-rl.lock"):
        versions.setdefault(name, set()).add(version)
    assert [pin for pin in pins("requirements.lock") if pin[1] not in versions.get(pin[0], {pin[1]})] == []


def test_the_bill_of_materials_is_valid_and_lists_the_lock():
    """The command validates what it prints against CycloneDX's schema, and fails otherwise."""
    done = subprocess.run(
        [settings.BASE_DIR / "deploy/sbom", settings.BASE_DIR / "requirements.lock"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    listed = {(normal(each["name"]), each["version"]) for each in document["components"]}
    assert (listed, document["metadata"]["component"]["name"]) == (pins("requirements.lock"), "ratchet")
