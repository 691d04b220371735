"""Registers GGUF files with an Ollama server, and keeps order there. The client is imported when it is first used."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from rl.base.errors import ExportFailed, UsageError
from rl.base.leaves import leaf
from rl.base.records import Report, silent

if TYPE_CHECKING:
    from rl.export.ollama.client import Client

CLIENT: Final = "rl.export.ollama.client"
_PART = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}"
_NAME = re.compile(rf"{_PART}(?::{_PART})?")
_CHUNK = 1 << 20
"""Bytes sent at once."""


@dataclass(frozen=True, slots=True)
class StoredModel:
    """One that the server has."""

    name: str
    """With its tag."""
    size_bytes: int
    digest: str
    quantization: str


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """One that is in memory."""

    name: str
    size_bytes: int
    context_length: int


def check_model_name(name: str) -> str:
    """The name itself, with or without a tag; raises UsageError unless Ollama accepts it."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"Ollama model name {name!r} is not usable: write 1 to 80 of the letters a-z, digits, '_', '.' and '-', "
            "starting with a letter, a digit or '_', and a tag after ':' if you like"
        )
    return name


def full_name(name: str) -> str:
    """With the tag that Ollama adds to a name that has none."""
    return name if ":" in name else f"{name}:latest"


def check_address(url: str, owner: str) -> str:
    """Without a slash at its end. Raises UsageError for what is not a plain http or https address, or holds a password."""
    try:
        parts = urlsplit(url)
        usable = parts.port != 0 and bool(parts.hostname)
    except ValueError as error:
        raise UsageError(f"{owner} address {url!r} is not usable: {error}") from None
    if parts.username or parts.password:
        raise UsageError(f"{owner} address is not usable: it holds a name or a password; write http://host:port")
    if parts.scheme not in ("http", "https") or not usable or parts.query or parts.fragment:
        raise UsageError(f"{owner} address {url!r} is not usable: write http://host:port or https://host:port")
    return url.rstrip("/")


class OllamaDeployer:
    """One Ollama server. Every method raises ExportFailed, in one line, for a server that is down, wrong or refuses."""

    def __init__(self, url: str, *, timeout: float = 30.0, patience: float = 600.0) -> None:
        """``timeout``: seconds of silence allowed to short requests; ``patience``: to those that move a whole model."""
        self.url = check_address(url, "Ollama's")
        self.timeout, self.patience = timeout, patience

    def version(self) -> str:
        """Also tells whether it is Ollama at all that answers."""
        with self._asking("to say its version") as client:
            return client.version()

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
        given, is what the file must have. The model is made of the file alone, so Ollama has nothing to fetch elsewhere."""
        check_model_name(model_name)
        if not template.strip():
            raise UsageError(f"the template for {model_name} is empty: Ollama would guess one")
        self.version()
        digest = _digest(gguf, report)
        if sha256 and digest != sha256:
            raise ExportFailed(
                f"{gguf} is not the file that was exported any more (its SHA-256 differs); export it again"
            )
        self._upload(gguf, f"sha256:{digest}", report)
        settings = {"template": template, "system": system, "parameters": dict(parameters or {})}
        self._create(model_name, f"sha256:{digest}", {name: value for name, value in settings.items() if value}, report)

    def running(self) -> list[LoadedModel]:
        with self._asking("to say what is in memory") as client:
            models = client.ps().models
        return [LoadedModel(model.model or "", int(model.size or 0), model.context_length or 0) for model in models]

    def list(self) -> list[StoredModel]:
        """What the server has, the newest first."""
        with self._asking("to list its models") as client:
            models = client.list().models
        levels = [(model.details.quantization_level or "") if model.details else "" for model in models]
        return [
            StoredModel(model.model or "", int(model.size or 0), model.digest or "", level)
            for model, level in zip(models, levels, strict=True)
        ]

    def show(self, name: str) -> dict[str, Any] | None:
        """Template, parameters, details and metadata of a model; None when the server has none of that name."""
        check_model_name(name)
        try:
            with self._asking(f"to show {name}") as client:
                return client.show(name).model_dump()
        except ExportFailed as error:
            if getattr(error.__cause__, "status_code", 0) == 404:
                return None
            raise

    def copy(self, source: str, destination: str) -> None:
        """Gives a model a second name, which may have been another model's; no file is copied."""
        check_model_name(source)
        check_model_name(destination)
        with self._asking(f"to copy {source} to {destination}") as client:
            client.copy(source, destination)

    def delete(self, name: str) -> None:
        """Its files go too, unless another model has them."""
        check_model_name(name)
        with self._asking(f"to delete {name}") as client:
            client.delete(name)

    def unload(self, name: str) -> None:
        """Out of memory; the next request loads it again."""
        check_model_name(name)
        with self._asking(f"to unload {name}") as client:
            client.generate(name, keep_alive=0)

    @contextmanager
    def _asking(self, doing: str, seconds: float = 0.0) -> Iterator[Client]:
        with leaf(CLIENT).Client(self.url, seconds or self.timeout) as client, client.explain_failures(doing):
            yield client

    def _upload(self, gguf: Path, digest: str, report: Report) -> None:
        with self._asking(f"to look for {gguf.name}") as client:
            if client.has_blob(digest):
                report("log", {"text": f"Ollama has {gguf.name} already"})
                return
        report("stage", {"name": "uploading to Ollama"})
        size = _size(gguf)
        with self._asking(f"the upload of {gguf.name}", self.patience) as client:
            client.send_blob(digest, _chunks(gguf, size, report), size)

    def _create(self, model_name: str, digest: str, settings: Mapping[str, Any], report: Report) -> None:
        report("stage", {"name": "registering with Ollama"})
        last = "nothing"
        with self._asking(f"to create {model_name}", self.patience) as client:
            for event in client.create(model_name, files={"model.gguf": digest}, stream=True, **settings):
                last = event.status or ""
                report("log", {"text": f"Ollama: {last}"})
        if last != "success":
            raise ExportFailed(
                f"Ollama stopped before {model_name} was created; the last it said was {last!r}. Try again"
            )


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
    bytes_read = 0
    try:
        with gguf.open("rb") as handle:
            while chunk := handle.read(_CHUNK):
                yield chunk
                bytes_read += len(chunk)
                report("step", {"step": -(-bytes_read // _CHUNK), "total_steps": -(-size // _CHUNK), "metrics": {}})
    except OSError as error:
        raise ExportFailed(f"{gguf} cannot be read: {error.strerror or error}") from error
    if bytes_read != size:
        raise ExportFailed(f"{gguf} changed while it was being read; wait until nothing writes to it, and try again")
