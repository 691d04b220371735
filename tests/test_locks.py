"""The locked requirements are the pinned ones and all that they bring; the bill of materials lists them."""

import json
import re
import subprocess
from importlib.metadata import distributions

import pytest
from django.conf import settings

LOCKS = [
    "requirements",
    "requirements-rl",
    "tests/requirements",
    "tests/requirements-clients",
    "tests/requirements-llama-index",
]
_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^]]*\])?==([^\s;]+)", re.MULTILINE)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file: str) -> set[tuple[str, str]]:
    found = _PIN.findall((settings.BASE_DIR / file).read_text())
    return {(normal(name), version) for name, version in found}


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_is_in_the_lock(name: str):
    """Also those of a list that it includes. After a change of the pins: deploy/lock."""
    included = re.findall(r"^-r (\S+)", (settings.BASE_DIR / f"{name}.txt").read_text(), re.MULTILINE)
    for file in (f"{name}.txt", *included):
        assert sorted(pins(file) - pins(f"{name}.lock")) == []


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_of_the_lock_has_hashes_and_a_version(name: str):
    text = (settings.BASE_DIR / f"{name}.lock").read_text()
    blocks = re.split(r"\n(?=\S)", re.sub(r"^\s*#.*\n?", "", text, flags=re.MULTILINE).strip())
    assert len(blocks) > len(pins(f"{name}.txt"))
    assert [block for block in blocks if not _PIN.match(block) or "--hash=sha256:" not in block] == []


@pytest.mark.parametrize("other", ["requirements.lock", "tests/requirements.lock"])
def test_the_site_and_the_tests_get_the_same_versions_on_a_machine_that_trains(other: str):
    versions: dict[str, set[str]] = {}
    for name, version in pins("requirements-rl.lock"):
        versions.setdefault(name, set()).add(version)
    assert [pin for pin in pins(other) if pin[1] not in versions.get(pin[0], {pin[1]})] == []


@pytest.fixture(scope="module")
def bill() -> dict:
    """The command validates what it prints against CycloneDX's schema, and fails otherwise."""
    done = subprocess.run(
        [settings.BASE_DIR / "deploy/sbom", settings.BASE_DIR / "requirements.lock"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.process
def test_the_bill_of_materials_is_valid_and_lists_the_lock(bill: dict):
    listed = {(normal(each["name"]), each["version"]) for each in bill["components"]}
    assert (listed, bill["metadata"]["component"]["name"]) == (pins("requirements.lock"), "ratchet")


@pytest.mark.process
def test_the_bill_has_each_licence_that_a_package_declares_and_says_where_there_is_none(bill: dict):
    """By SPDX id where the package's own words are clear: BSD alone, or Apache without a version, is a name only."""
    licences = {normal(each["name"]): each.get("licenses", []) for each in bill["components"]}
    ids = {name: [each.get("license", {}).get("id") for each in rows] for name, rows in licences.items()}
    assert [ids["django"], ids["nh3"], ids["protobuf"]] == [["BSD-3-Clause"], ["MIT"], ["BSD-3-Clause"]]
    assert licences["psycopg"][0]["license"]["id"] == "LGPL-3.0-only"
    assert [each["expression"] for each in licences["prometheus-client"]] == ["Apache-2.0 AND BSD-2-Clause"]
    here = {normal(package.name) for package in distributions()}
    for each in bill["components"]:
        notes = [row["value"] for row in each.get("properties", []) if row["name"] == "ratchet:licence"]
        if normal(each["name"]) not in here:
            assert (each.get("licenses"), notes) == (
                None,
                ["not known: the package is not installed where this list was made"],
            )
        else:
            assert each.get("licenses") or notes == ["the package declares none"]
