"""The operator's file of models that may judge."""

from pathlib import Path

import pytest

from rl.base.errors import BadFile, JudgeFailed, UsageError
from rl.checks import judges_can_be_asked
from rl.evaluation.judges.servers import find_server, servers
from tests.evaluation.judges.judging_server import write_judges

ENTRY = {"url": "http://127.0.0.1:8000/v1/", "model": "qwen"}


@pytest.fixture
def file(settings, tmp_path: Path) -> Path:
    settings.JUDGES_FILE = str(tmp_path / "judges.yaml")
    return tmp_path / "judges.yaml"


def test_without_a_file_there_is_none(settings):
    settings.JUDGES_FILE = ""
    assert servers() == {}
    with pytest.raises(UsageError, match=r"'careful'.*own.*JUDGES_FILE"):
        find_server("careful")


def test_a_model_needs_an_address_and_a_name_and_the_rest_has_defaults(file):
    write_judges(file, careful=ENTRY)
    server = find_server("careful")
    assert (server.url, server.model, server.key(), server.at_once) == ("http://127.0.0.1:8000/v1", "qwen", "", 4)
    assert server.parameters == {"temperature": 0, "max_tokens": 512}


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"url": "http://h/v1"}, "needs model"),
        ({**ENTRY, "url": "ftp://h"}, "url must look like"),
        ({**ENTRY, "url": "http://user:secret@h/v1"}, "url must look like"),
        ({**ENTRY, "at_once": 0}, "at_once must be a whole number from 1 to 64"),
        ({**ENTRY, "parameters": {"model": "other"}}, "parameters: model is set by Ratchet"),
        ({**ENTRY, "parameters": [1]}, "parameters must be a mapping"),
        ({**ENTRY, "criteria": 3}, "criteria must be a text"),
        ({**ENTRY, "api_key": "sk"}, "unknown key 'careful.api_key'"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_line(file, entry, problem):
    write_judges(file, careful=entry)
    with pytest.raises(BadFile, match=problem) as refusal:
        servers()
    assert refusal.value.location.startswith("line ")


def test_own_is_not_a_name_for_a_server(file):
    write_judges(file, own=ENTRY)
    with pytest.raises(BadFile, match="choose another name"):
        servers()


def test_a_key_is_read_from_its_file_and_one_that_is_missing_is_told_at_the_start(file, tmp_path):
    (tmp_path / "key").write_text("sk-judge\n")
    write_judges(file, careful={**ENTRY, "key_file": str(tmp_path / "key")})
    assert find_server("careful").key() == "sk-judge"
    assert judges_can_be_asked() == []
    (tmp_path / "key").unlink()
    with pytest.raises(JudgeFailed, match="the key of judge careful cannot be read"):
        find_server("careful").key()
    assert [message.id for message in judges_can_be_asked()] == ["rl.W006"]
    file.write_text("careful: 3")
    assert [message.id for message in judges_can_be_asked()] == ["rl.E006"]
