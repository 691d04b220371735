"""The package of the widget: complete, typed, and harmless where there is no page."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

from tests.missing import missing

SOURCE = Path(settings.BASE_DIR) / "deploy" / "npm"
SCRIPTS = Path(settings.BASE_DIR) / "static" / "rl"
WIDGET = (SCRIPTS / "ratchet-feedback.js").read_text()
ATTRIBUTES = [
    name
    for names in re.findall(r"const (?:ANEW|ATTRIBUTES) = (\[.*\]);", WIDGET)
    for name in re.findall(r'"([\w-]+)"', names)
]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Built beside a copy of the static files."""
    if shutil.which("node") is None:
        missing("Node.js", "nodejs npm")
    folder = tmp_path / "deploy" / "npm"
    shutil.copytree(SOURCE, folder)
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "rl").symlink_to(SCRIPTS)
    return folder


def run(folder: Path, *command: str) -> str:
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.process
def test_it_is_imported_without_a_page(package: Path) -> None:
    run(package, "node", "build.mjs")
    assert run(package, "node", "--eval", "import('./index.js').then(() => console.log('fine'))") == "fine\n"


@pytest.mark.process
def test_it_holds_every_file_that_it_names(package: Path) -> None:
    if shutil.which("npm") is None:
        missing("npm", "nodejs npm")
    run(package, "node", "build.mjs")
    packed = json.loads(run(package, "npm", "pack", "--dry-run", "--json", "--ignore-scripts"))
    names = {file["path"] for file in (packed[0] if isinstance(packed, list) else next(iter(packed.values())))["files"]}
    assert names == {*json.loads((SOURCE / "package.json").read_text())["files"], "package.json"}


def property_of(attribute: str) -> str:
    return re.sub("-(.)", lambda match: match[1].upper(), attribute)


def test_the_types_know_every_property_and_attribute() -> None:
    types = (SCRIPTS / "ratchet-feedback.d.ts").read_text()
    settable = set(re.findall(r"  set (\w+)\(", types))
    assert settable == {property_of(name) for name in ATTRIBUTES}
    attributes = types.split("interface RatchetFeedbackAttributes {")[1].split("}")[0]
    assert set(re.findall(r'^  "?([\w-]+)"?\?:', attributes, re.MULTILINE)) == set(ATTRIBUTES)


def test_the_manifest_knows_what_the_element_observes_and_shows() -> None:
    element = json.loads((SCRIPTS / "custom-elements.json").read_text())["modules"][0]["declarations"][0]
    source = "".join((SCRIPTS / name).read_text() for name in ("ratchet-feedback.js", "ratchet-feedback-more.js"))
    known = {attribute["name"]: attribute.get("fieldName") for attribute in element["attributes"]}
    assert set(ATTRIBUTES) == set(known) - {"lang", "key"}
    assert [known[name] for name in ATTRIBUTES] == [property_of(name) for name in ATTRIBUTES]
    assert {property_of(name) for name in ATTRIBUTES} < {member["name"] for member in element["members"]}
    assert set(re.findall(r"var\((--ratchet-\w+)", source)) == {name["name"] for name in element["cssProperties"]}
    parts = {word for words in re.findall(r'part: "([\w -]+)"', source) for word in words.split()}
    assert parts <= {part["name"] for part in element["cssParts"]}
