"""Registers GGUF files with an Ollama server, over its HTTP API. Needs the standard library only."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from http.client import HTTPResponse
from pathlib import Path

from rl.errors import ExportFailed, UsageError
from rl.export.ollama_http import CHUNK, Endpoint, document, json_object, refusal
from rl.records import Report, silent

_PART = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}"
_NAME = re.compile(rf"{_PART}(?::{_PART})?")
_LINE_LIMIT = 1 << 16
"""Bytes of one status line."""


def check_model_name(name: str) -> str:
    """The name itself, with or without a tag; raises UsageError unless Ollama accepts it."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"Ollama model name {name!r} is not usable: write 1 to 80 of the letters a-z, digits, '_', '.' and '-', "
            "starting with a letter, a digit or '_', and a tag after ':' if you like"
        )
    return name


class OllamaDeployer:
    """One Ollama server. Every method raises ExportFailed, in one line, for a server that is down, wrong or refuses."""

    def __init__(self, url: str, *, timeout: float = 30.0, patience: float = 600.0) -> None:
        """``timeout``: seconds of silence allowed to short requests; ``patience``: to those that move a whole model."""
        self.endpoint = Endpoint.parse(url)
        self.timeout, self.patience = timeout, patience

    def version(self) -> str:
        """Also tells whether it is Ollama at all that answers."""
        with self.endpoint.exchange("GET", "/api/version", timeout=self.timeout) as response:
            if 300 <= response.status < 400:
                self.endpoint.check(response, "to say its version")
            version = document(response).get("version")
            if response.status != 200 or not isinstance(version, str):
                raise ExportFailed(
                    f"what answers at {self.endpoint.url} is not Ollama (HTTP {response.status} for /api/version); "
                    "correct OLLAMA_URL"
                )
        return version

    def register(
        self,
        model_name: str,
        gguf: Path,
        *,
        template: str,
        system: str = "",
        parameters: Mapping[str, object] | None = None,
        sha256: str = "",
        report: Report = silent,
    ) -> None:
        """Makes Ollama serve the file under the name; a model that has the name already is replaced at the end.

        ``template`` is in Ollama's own language and never left to its guess, which goes by likeness. ``sha256``, where
        given, is what the file must have.
        """
        check_model_name(model_name)
        if not template.strip():
            raise UsageError(f"the template for {model_name} is empty: Ollama would guess one")
        self.version()
        digest = _digest(gguf, report)
        if sha256 and digest != sha256:
            raise ExportFailed(
                f"{gguf} is not the file that was exported any more (its SHA-256 differs); export it again"
            )
        self._upload(gguf, digest, report)
        wanted = {"template": template, "system": system, "parameters": dict(parameters or {})}
        self._create(model_name, digest, {name: value for name, value in wanted.items() if value}, report)

    def exists(self, name: str) -> bool:
        body = {"model": check_model_name(name)}
        with self.endpoint.exchange("POST", "/api/show", body, timeout=self.timeout) as response:
            if response.status != 404:
                self.endpoint.check(response, f"to show {name}")
            return response.status == 200

    def delete(self, name: str) -> None:
        body = {"model": check_model_name(name)}
        with self.endpoint.exchange("DELETE", "/api/delete", body, timeout=self.timeout) as response:
            self.endpoint.check(response, f"to delete {name}")

    def copy(self, source: str, destination: str) -> None:
        """Gives a model a second name; no file is copied."""
        body = {"source": check_model_name(source), "destination": check_model_name(destination)}
        with self.endpoint.exchange("POST", "/api/copy", body, timeout=self.timeout) as response:
            self.endpoint.check(response, f"to copy {source} to {destination}")

    def _upload(self, gguf: Path, digest: str, report: Report) -> None:
        path = f"/api/blobs/sha256:{digest}"
        with self.endpoint.exchange("HEAD", path, timeout=self.timeout) as response:
            if response.status == 200:
                report("log", {"text": f"Ollama has {gguf.name} already"})
                return
            if response.status != 404:
                self.endpoint.check(response, f"to look for {gguf.name}")
        report("stage", {"name": "uploading to Ollama"})
        size = _size(gguf)
        chunks = _chunks(gguf, size, report)
        with self.endpoint.exchange("POST", path, chunks, length=size, timeout=self.patience) as response:
            self.endpoint.check(response, f"the upload of {gguf.name}")

    def _create(self, model_name: str, digest: str, settings: Mapping[str, object], report: Report) -> None:
        report("stage", {"name": "registering with Ollama"})
        body = {"model": model_name, "files": {"model.gguf": f"sha256:{digest}"}, **settings}
        with self.endpoint.exchange("POST", "/api/create", body, timeout=self.patience) as response:
            self.endpoint.check(response, f"to create {model_name}")
            _follow(response, model_name, report)


def _follow(response: HTTPResponse, model_name: str, report: Report) -> None:
    """Reads status lines to the end: an error after the first line comes with HTTP 200."""
    last = "nothing"
    while line := response.readline(_LINE_LIMIT):
        event = json_object(line)
        if "error" in event:
            raise refusal(f"to create {model_name}", event["error"])
        last = str(event.get("status", line[:100]))
        report("log", {"text": f"Ollama: {last}"})
    if last != "success":
        raise ExportFailed(f"Ollama stopped before {model_name} was created; the last it said was {last!r}. Try again")


def _digest(gguf: Path, report: Report) -> str:
    report("stage", {"name": "hashing the model file"})
    sha256 = hashlib.sha256()
    for chunk in _chunks(gguf, _size(gguf), report):
        sha256.update(chunk)
    return sha256.hexdigest()


def _size(gguf: Path) -> int:
    try:
        return gguf.stat().st_size
    except OSError as error:
        raise ExportFailed(f"{gguf} cannot be read: {error.strerror}; export it again") from None


def _chunks(gguf: Path, size: int, report: Report) -> Iterator[bytes]:
    """The file in pieces; steps are mebibytes. Reports each, so that a run that sends a large file still beats."""
    done = 0
    try:
        with gguf.open("rb") as handle:
            while chunk := handle.read(CHUNK):
                yield chunk
                done += len(chunk)
                report("step", {"step": -(-done // CHUNK), "total_steps": -(-size // CHUNK), "metrics": {}})
    except OSError as error:
        raise ExportFailed(f"{gguf} cannot be read: {error.strerror or error}") from error
    if done != size:
        raise ExportFailed(f"{gguf} changed while it was being read; wait until nothing writes to it, and try again")
