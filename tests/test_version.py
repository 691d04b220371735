"""One version: the changelog's. All that shows one agrees."""

import re
import tomllib
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

from backend import bootstrap, version

ROOT = Path(settings.BASE_DIR)
HEADINGS = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_it_is_the_first_heading_of_the_changelog():
    assert version.read_version() == settings.VERSION == HEADINGS[0]


@pytest.mark.parametrize("text", ["", "# Changelog\n\n## Unreleased\n", "# Changelog\n\nWords.\n\n## 1.0.0\n"])
def test_a_changelog_that_does_not_begin_with_one_is_refused(text: str, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(version, "CHANGELOG", tmp_path / "CHANGELOG.md")
    version.CHANGELOG.write_text(text)
    with pytest.raises(ValueError, match="does not begin with"):
        version.read_version()


def test_versions_of_the_changelog_fall():
    assert sorted(HEADINGS, key=lambda name: [int(part) for part in name.split(".")], reverse=True) == HEADINGS


def test_the_bill_of_materials_has_it():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == settings.VERSION


@pytest.mark.parametrize("word", ["version", "--version"])
def test_manage_py_prints_it_on_a_machine_without_django(word: str, capsys):
    assert bootstrap.run([word]) == 0
    assert capsys.readouterr().out == f"Ratchet {settings.VERSION}\n"


def test_a_command_prints_it(capsys):
    with pytest.raises(SystemExit) as ended:
        call_command("training_plan", "--version", stdout=StringIO())
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"Ratchet {settings.VERSION}\n"


def test_the_description_of_the_api_has_it():
    assert SchemaGenerator().get_schema(request=None, public=True)["info"]["version"] == settings.VERSION


@pytest.mark.parametrize("address", ["/", "/traces/", "/admin/"])
def test_pages_show_it_to_people_who_signed_in(address: str, client: Client, bob):
    client.force_login(bob)
    assert f"Ratchet {settings.VERSION}" in client.get(address).content.decode()


@pytest.mark.parametrize("address", ["/login/", "/admin/login/"])
@pytest.mark.django_db
def test_pages_do_not_show_it_to_strangers(address: str, client: Client):
    assert settings.VERSION not in client.get(address).content.decode()
