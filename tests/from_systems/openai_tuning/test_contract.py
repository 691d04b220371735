"""Every call that OpenAI's own client makes for files, uploads and fine-tuning has an address here, with its method."""

import re
from pathlib import Path

import openai
import pytest
from django.urls import resolve

from rl.from_systems.openai_tuning.calls import UnknownCall

RESOURCES = Path(openai.__file__).parent / "resources"
FILES = ("files.py", "uploads", "fine_tuning", "models.py")
CALL = re.compile(r'self\._(get_api_list|get|post|delete)\(\s*(?:path_template\(\s*)?"(/[^"]+)"')
OF_GATEWAY = {("GET", "/models"), ("GET", "/models/{model}")}


def calls() -> list[tuple[str, str]]:
    paths = [RESOURCES / name for name in FILES]
    files = [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))]
    found = {match.groups() for file in files for match in CALL.finditer(file.read_text(encoding="utf-8"))}
    methods = {"get_api_list": "GET"}
    return sorted({(methods.get(kind, kind.upper()), path) for kind, path in found} - OF_GATEWAY)


def test_the_client_makes_the_calls_that_are_walked():
    assert len(calls()) >= 22
    assert {("POST", "/fine_tuning/jobs"), ("GET", "/files/{file_id}/content"), ("DELETE", "/models/{model}")} <= {
        *calls()
    }


@pytest.mark.parametrize(("method", "path"), calls())
@pytest.mark.parametrize("end", ["", "/"])
def test_every_call_of_the_client_has_an_address(method: str, path: str, end: str):
    view = resolve("/v1" + re.sub(r"\{\w+\}", "x", path) + end).func.view_class
    assert view is not UnknownCall
    assert method in view().allowed_methods
    assert method in view.scopes
