"""The double answers as a real Ollama server was recorded to answer."""

from __future__ import annotations

import hashlib
import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.export.ollama_double import OllamaDouble, ollama_double

TRANSCRIPT = Path(__file__).parent / "data" / "ollama_transcript.jsonl"
UNUSED = ("generate", "chat", "ps", "openai", "unload", "tags", "create quantize")
"""Serving and listing, which Ratchet does not ask Ollama for, and the server's own quantisation."""
CUT = {"show"}
"""Recorded in part only."""
CONTENTS = {"<2163712 bytes>": b"GGUF" + b"q" * 60, "<3955072 bytes>": b"GGUF" + b"f" * 90}
"""Stand for the recorded files, whose bytes were not kept."""
SHORT = {"<3 bytes>": b"abc", "<5 bytes>": b"hello", "<1 bytes>": b"{", "<0 bytes>": b""}

Exchange = dict[str, Any]


def exchanges() -> list[Exchange]:
    every = [json.loads(line) for line in TRANSCRIPT.read_text().splitlines()]
    return [one for one in every if not one["label"].startswith(UNUSED)]


def recorded_digests() -> dict[str, str]:
    """The digest of each recorded file, and that of its stand-in."""
    return {
        one["request"]["path"].rpartition(":")[2]: hashlib.sha256(CONTENTS[one["request"]["body"]]).hexdigest()
        for one in exchanges()
        if isinstance(one["request"]["body"], str) and one["request"]["body"] in CONTENTS
    }


def with_stand_ins(text: str) -> str:
    for recorded, stand_in in recorded_digests().items():
        text = text.replace(recorded, stand_in)
    return text


def send(double: OllamaDouble, request: Exchange) -> tuple[int, str | None, str]:
    body = request["body"]
    if isinstance(body, str):
        body = {**CONTENTS, **SHORT}[body]
    elif body is not None:
        body = with_stand_ins(json.dumps(body)).encode()
    connection = http.client.HTTPConnection(urlsplit(double.url).netloc, timeout=10)
    connection.request(request["method"], with_stand_ins(request["path"]), body=body)
    response = connection.getresponse()
    content = response.read().decode()
    connection.close()
    return response.status, response.headers["Content-Type"], content


def shape(body: str) -> list[Any]:
    """Each line's keys; of a status, what it says without the digest, and without whether the layer was new."""
    shapes: list[Any] = []
    for line in body.splitlines():
        if not line.startswith("{"):
            shapes.append(line)
            continue
        document = json.loads(line)
        status = document.get("status", "").split(" sha256:")[0]
        shapes.append((sorted(document), status.replace("creating new", "using existing")))
    return shapes


def test_the_double_answers_as_the_recorded_server(tmp_path: Path):
    """In the recorded order: later exchanges need what earlier ones made."""
    differences = {}
    with ollama_double(tmp_path / "blobs") as double:
        for exchange in exchanges():
            label, recorded = exchange["label"], exchange["response"]
            status, content_type, body = send(double, exchange["request"])
            given = [status, content_type, *([] if label in CUT else shape(body))]
            expected = [
                recorded["status"],
                recorded["content_type"],
                *([] if label in CUT else shape(recorded["body"])),
            ]
            if given != expected:
                differences[label] = (given, expected)
    assert differences == {}
    assert len(exchanges()) == 31
