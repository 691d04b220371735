"""The double answers as a real Ollama server was recorded to answer."""

import hashlib
import http.client
import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import gguf
import pytest

from tests.export.ollama_double import OllamaDouble, ollama_double

pytestmark = pytest.mark.process


TRANSCRIPT = Path(__file__).parent / "data" / "ollama_transcript.jsonl"
OURS = "tr-"
"""How the names of the models begin that the recorded exchanges made; the server had others."""
SHORT = {"<3 bytes>": b"abc", "<5 bytes>": b"hello", "<1 bytes>": b"{", "<0 bytes>": b""}

Exchange = dict[str, Any]


def exchanges() -> list[Exchange]:
    return [json.loads(line) for line in TRANSCRIPT.read_text().splitlines()]


@cache
def contents() -> dict[str, bytes]:
    """Stand for the recorded files, whose bytes were not kept: of the same types."""
    return {
        "<2163712 bytes>": _gguf(gguf.LlamaFileType.MOSTLY_Q8_0),
        "<3955072 bytes>": _gguf(gguf.LlamaFileType.MOSTLY_F16),
    }


def _gguf(level: gguf.LlamaFileType) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_file_type(level)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        return path.read_bytes()


def recorded_digests() -> dict[str, str]:
    """The digest of each recorded file, and that of its stand-in."""
    return {
        one["request"]["path"].rpartition(":")[2]: hashlib.sha256(contents()[one["request"]["body"]]).hexdigest()
        for one in exchanges()
        if isinstance(one["request"]["body"], str) and one["request"]["body"] in contents()
    }


def with_stand_ins(text: str) -> str:
    for recorded, stand_in in recorded_digests().items():
        text = text.replace(recorded, stand_in)
    return text


def send(double: OllamaDouble, request: Exchange) -> tuple[int, str | None, str]:
    body = request["body"]
    if isinstance(body, str):
        body = {**contents(), **SHORT}[body]
    elif body is not None:
        body = with_stand_ins(json.dumps(body)).encode()
    connection = http.client.HTTPConnection(urlsplit(double.url).netloc, timeout=60)
    connection.request(request["method"], with_stand_ins(request["path"]), body=body)
    response = connection.getresponse()
    content = response.read().decode()
    connection.close()
    return response.status, response.headers["Content-Type"], content


def shape(body: str) -> list[Any]:
    """Each line's keys; of a status, what it says without the digest, and without whether the layer was new."""
    return [_shape_of(line) for line in body.splitlines()]


def _shape_of(line: str) -> Any:
    if not line.startswith("{"):
        return line
    for listed in ("models", "data"):
        if f'"{listed}":[' in line:
            return [listed, *_entries(line, listed)]
    document = json.loads(line)
    status = document.get("status", "").split(" sha256:")[0]
    return keys(document), status.replace("creating new", "using existing"), document.get("done_reason")


def _entries(line: str, listed: str) -> list[Any]:
    """Name and keys of those that the exchanges made; a long list was recorded to its 6000th character only."""
    found, rest = [], line.partition(f'"{listed}":[')[2]
    while rest.startswith("{"):
        try:
            entry, end = json.JSONDecoder().raw_decode(rest)
        except ValueError:
            break
        name = entry.get("name") or entry["id"]
        if name.startswith(OURS):
            found.append((name, keys(entry)))
        rest = rest[end:].lstrip(",")
    return found


def keys(document: Any) -> Any:
    """Of an object and of those in it; what a model is like is its own affair."""
    if not isinstance(document, dict):
        return None
    return {name: None if name == "model_info" else keys(value) for name, value in sorted(document.items())}


def test_the_double_answers_as_the_recorded_server(tmp_path: Path):
    """In the recorded order: later exchanges need what earlier ones made."""
    differences = {}
    with ollama_double(tmp_path / "blobs") as double:
        for exchange in exchanges():
            recorded = exchange["response"]
            status, content_type, body = send(double, exchange["request"])
            given = [status, content_type, *shape(body)]
            expected = [recorded["status"], recorded["content_type"], *shape(recorded["body"])]
            if given != expected:
                differences[exchange["label"]] = (given, expected)
    assert differences == {}
    assert len(exchanges()) == 53
