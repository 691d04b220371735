"""A small Ollama: a real HTTP server that keeps blobs in a directory, checks them, and answers in Ollama's shapes.

``test_ollama_double.py`` replays what a real server was recorded to answer, so that the likeness is not a matter of trust.
It can be told to fail in the ways a server and a network fail.
"""

import hashlib
import json
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import gguf

JSON = "application/json; charset=utf-8"
PLAIN_JSON = "application/json"
"""Ollama's create route writes some of its errors itself, without a charset."""
LINES = "application/x-ndjson"
NOW = "2026-11-21T05:34:29.248509127Z"
QUANTIZATIONS = ("F32", "F16", "Q4_K_S", "Q4_K_M", "Q8_0")
"""That the server makes itself."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,79})?")


@dataclass
class OllamaDouble:
    """What the server has, what it was asked, and how it is to fail."""

    blobs: Path
    url: str = ""
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Full name, with tag, to the body of the request that created it; the newest first."""
    loaded: dict[str, int] = field(default_factory=dict)
    """Full name of what is in memory to its context length."""
    requests: list[str] = field(default_factory=list)
    break_upload_after: int | None = None
    """Bytes after which the connection is cut."""
    disk_full: bool = False
    damage_uploads: bool = False
    fail_create: str = ""
    """An error in the stream, after its first line."""
    end_create_early: bool = False

    def blob(self, digest: str) -> Path:
        return self.blobs / digest.replace(":", "-")

    def keep(self, body: dict[str, Any]) -> None:
        """The newest model stands first."""
        name = _full(body["model"])
        self.models.pop(name, None)
        if "from" in body:
            body = {**self.models.get(_full(body["from"]), {}), **body}
        self.models = {name: body, **self.models}

    def load(self, body: dict[str, Any]) -> str:
        """What it did: load or unload."""
        name = _full(body["model"])
        if body.get("keep_alive") == 0:
            self.loaded.pop(name, None)
            return "unload"
        self.loaded[name] = self.models[name].get("parameters", {}).get("num_ctx", 4096)
        return "load"

    def stored(self) -> list[dict[str, Any]]:
        more = {"context_length": 1024, "embedding_length": 192}
        return [
            {
                **self._head(name),
                "modified_at": NOW,
                "details": {**self.details(model), **more},
                "capabilities": ["completion"],
            }
            for name, model in self.models.items()
        ]

    def in_memory(self) -> list[dict[str, Any]]:
        return [
            {
                **self._head(name),
                "details": self.details(self.models[name]),
                "expires_at": NOW,
                "size_vram": 0,
                "context_length": context,
            }
            for name, context in self.loaded.items()
        ]

    def of_openai(self) -> list[dict[str, Any]]:
        return [{"id": name, "object": "model", "created": 0, "owned_by": "library"} for name in self.models]

    def shown(self, model: dict[str, Any]) -> dict[str, Any]:
        parameters = "\n".join(f"{name:<30} {value}" for name, value in model.get("parameters", {}).items())
        return {
            "modelfile": "# Modelfile\n",
            "parameters": parameters,
            "template": model.get("template", ""),
            "details": self.details(model),
            "model_info": {"general.architecture": "llama"},
            "tensors": [],
            "capabilities": ["completion"],
            "modified_at": NOW,
        }

    def details(self, model: dict[str, Any]) -> dict[str, Any]:
        """``quantization_level`` as the file's own metadata says; unknown where it holds none."""
        level = str(model.get("quantize", "")).upper() or self.level(model)
        return {
            "parent_model": model.get("from", ""),
            "format": "gguf",
            "family": "llama",
            "families": ["llama"],
            "parameter_size": "1.91M",
            "quantization_level": level,
        }

    def level(self, model: dict[str, Any]) -> str:
        for digest in model.get("files", {}).values():
            with suppress(ValueError, IndexError, OSError):
                if field := gguf.GGUFReader(self.blob(digest)).get_field("general.file_type"):
                    return gguf.LlamaFileType(field.contents()).name.removeprefix("MOSTLY_").removeprefix("ALL_")
        return "unknown"

    def _head(self, name: str) -> dict[str, Any]:
        digest = hashlib.sha256(name.encode()).hexdigest()
        return {"name": name, "model": name, "size": 2_164_037, "digest": digest}

    def has_layer(self, content: object) -> bool:
        """Whether the layer is there already; now it is."""
        digest = f"sha256:{hashlib.sha256(json.dumps(content).encode()).hexdigest()}"
        known = self.blob(digest).exists()
        self.blob(digest).write_bytes(b"")
        return known


@contextmanager
def ollama_double(blobs: Path) -> Iterator[OllamaDouble]:
    blobs.mkdir(parents=True, exist_ok=True)
    double = OllamaDouble(blobs)
    handler = type("Handler", (_Handler,), {"double": double})
    with serving(handler) as url:
        double.url = url
        yield double


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up early is no news."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server of its own thread, on a free port."""
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def compact(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _full(name: str) -> str:
    return name if ":" in name else f"{name}:latest"


class _Handler(BaseHTTPRequestHandler):
    double: OllamaDouble
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        self.double.requests.append(f"{self.command} {self.path}")

    def do_GET(self) -> None:
        if self.path == "/":
            self._answer(200, "text/plain; charset=utf-8", b"Ollama is running")
        elif self.path == "/api/version":
            self._json(200, {"version": "0.0.0"})
        elif self.path == "/api/tags":
            self._json(200, {"models": self.double.stored()})
        elif self.path == "/api/ps":
            self._json(200, {"models": self.double.in_memory()})
        elif self.path == "/v1/models":
            self._openai(200, {"object": "list", "data": self.double.of_openai()})
        else:
            self._no_route({"/api/create", "/api/copy", "/api/show", "/api/delete"})

    def do_HEAD(self) -> None:
        digest = self.path.removeprefix("/api/blobs/")
        if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
            self._answer(400, JSON, b"")
        elif self.double.blob(digest).exists():
            self._answer(200, None, b"")
        else:
            self._answer(404, JSON, b"")

    def do_POST(self) -> None:
        if self.path.startswith("/api/blobs/"):
            self._receive_blob(self.path.removeprefix("/api/blobs/"))
        elif self.path == "/api/create":
            self._create()
        elif self.path == "/api/show":
            self._show()
        elif self.path == "/api/copy":
            self._copy()
        elif self.path in ("/api/generate", "/api/chat"):
            self._generate(self._body(), "response" if self.path == "/api/generate" else "message")
        elif self.path == "/v1/chat/completions":
            self._complete(self._body())
        else:
            self._no_route(set())

    def do_DELETE(self) -> None:
        name = self._body()["model"]
        self.double.loaded.pop(_full(name), None)
        if self.double.models.pop(_full(name), None) is None:
            self._json(404, {"error": f"model '{name}' not found"})
        else:
            self._answer(200, None, b"")

    def _receive_blob(self, digest: str) -> None:
        double, size = self.double, int(self.headers["Content-Length"])
        if double.disk_full:
            self.close_connection = True
            self._json(500, {"error": "write /srv/ollama/models/blobs/sha256-1: no space left on device"})
            return
        data = self._receive(size, double.break_upload_after or size)
        if len(data) < size:  # one of the two has hung up
            self.close_connection = True
        else:
            self._keep(digest, b"\0" + data[1:] if double.damage_uploads else data)

    def _receive(self, size: int, at_most: int) -> bytes:
        """The body, or what has come of it when the client went away or the connection is to be cut."""
        data = bytearray()
        with suppress(ConnectionError):
            while len(data) < min(size, at_most) and (part := self.rfile.read(min(size - len(data), 1 << 16))):
                data += part
        return bytes(data)

    def _keep(self, digest: str, data: bytes) -> None:
        path, actual = self.double.blob(digest), f"sha256:{hashlib.sha256(data).hexdigest()}"
        if actual != digest:
            self._json(400, {"error": f'digest mismatch, expected "{digest}", got "{actual}"'})
            return
        known = path.exists()
        path.write_bytes(data)
        self._answer(200 if known else 201, None, b"")

    def _create(self) -> None:
        raw = self._raw_body()
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            self._json(400, {"error": "unexpected EOF"})
            return
        if refused := self._refusal(raw, body):
            content_type, reason = refused
            self._answer(400, content_type, json.dumps({"error": reason}).encode())
            return
        events = list(self._events(body))
        if body.get("stream", True):
            self._stream(events)
        else:
            self._answer(500 if "error" in events[-1] else 200, PLAIN_JSON, json.dumps(events[-1]).encode())

    def _refusal(self, raw: bytes, body: dict[str, Any]) -> tuple[str, str] | None:
        """Content type and reason, for what is wrong before the first line."""
        files = body.get("files", {})
        template = body.get("template", "")
        blobs = [self.double.blob(digest) for digest in files.values()]
        if not raw:
            return JSON, "missing request body"
        if not _NAME.fullmatch(body["model"]):
            return JSON, "invalid model name"
        if any(Path(name).is_absolute() for name in files):
            return JSON, "file path must be relative"
        if "from" not in body and not files:
            return PLAIN_JSON, "neither 'from' or 'files' was specified"
        if any(blob.exists() and blob.read_bytes()[:4] != b"GGUF" for blob in blobs):
            return PLAIN_JSON, "unknown type"
        if template.count("{{") != template.count("}}"):
            return PLAIN_JSON, "template error: template: :1: unclosed action"
        return None

    def _events(self, body: dict[str, Any]) -> Iterator[dict[str, str]]:
        if "from" not in body:
            yield {"status": "parsing GGUF"}
            if any(not self.double.blob(digest).exists() for digest in body["files"].values()):
                yield {"error": "open /srv/ollama/models: no such file or directory"}
                return
            if self.double.fail_create:
                yield {"error": self.double.fail_create}
                return
            if reason := self._no_quantization(body):
                yield {"error": reason}
                return
            yield {"status": "verifying conversion"}
            for digest in body["files"].values():
                yield {"status": f"using existing layer {digest}"}
        yield from self._layers(body)
        yield {"status": "writing manifest"}
        if self.double.end_create_early:
            return
        self.double.keep(body)
        yield {"status": "success"}

    def _no_quantization(self, body: dict[str, Any]) -> str:
        """Why the server itself cannot quantise as it was asked to; empty when it can, or was not asked."""
        wanted = str(body.get("quantize", "")).upper()
        if not wanted:
            return ""
        if wanted not in {level.upper() for level in QUANTIZATIONS}:
            return f"unsupported quantization type {wanted} - supported types are {', '.join(QUANTIZATIONS)}"
        if self.double.level(body) not in ("F16", "BF16", "F32"):
            return "quantization is only supported for F16, BF16 and F32 models"
        return ""

    def _layers(self, body: dict[str, Any]) -> Iterator[dict[str, str]]:
        if "template" not in body and "from" not in body:
            yield {"status": "using autodetected template chatml"}
        for part in ("template", "system", "license", "parameters", "messages"):
            content = body.get(part, "chatml" if part == "template" and "from" not in body else None)
            if content is not None:
                verb = "using existing" if self.double.has_layer(content) else "creating new"
                yield {"status": f"{verb} layer sha256:{hashlib.sha256(str(content).encode()).hexdigest()}"}

    def _show(self) -> None:
        name = self._body().get("model")
        if not name:
            self._json(400, {"error": "model is required"})
        elif (model := self.double.models.get(_full(name))) is None:
            self._json(404, {"error": f"model '{_full(name)}' not found"})
        else:
            self._json(200, self.double.shown(model))

    def _copy(self) -> None:
        body = self._body()
        if (model := self.double.models.get(_full(body["source"]))) is None:
            self._json(404, {"error": f'model "{body["source"]}" not found'})
            return
        self.double.keep({**model, "model": body["destination"]})
        self._answer(200, None, b"")

    def _generate(self, body: dict[str, Any], kind: str) -> None:
        """``kind``: the key of the text, response or message. No prompt, or no message, only loads or unloads."""
        options = body.get("options", {})
        wrong = next((name for name in ("num_ctx", "num_predict") if not isinstance(options.get(name, 0), int)), "")
        if _full(body["model"]) not in self.double.models:
            self._json(404, {"error": f"model '{body['model']}' not found"})
        elif wrong:
            self._json(500, {"error": f'option "{wrong}" must be of type integer'})
        elif not body.get("prompt") and not body.get("messages"):
            self._json(200, {**self._text(body, kind, ""), "done": True, "done_reason": self.double.load(body)})
        else:
            self.double.load(body)
            self._answer_prompt(body, kind)

    def _answer_prompt(self, body: dict[str, Any], kind: str) -> None:
        words = [" and"] * body.get("options", {}).get("num_predict", 8)
        numbers = ("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count")
        end = {"done": True, "done_reason": "length", **dict.fromkeys((*numbers, "eval_duration"), 1)}
        if kind == "response" and not body.get("raw"):
            end["context"] = [1, 2]
        if body.get("logprobs"):
            end["logprobs"] = [{"token": word, "logprob": -1.0, "bytes": [], "top_logprobs": []} for word in words]
        if body.get("stream", True):
            pieces = [{**self._text(body, kind, word), "done": False} for word in words]
            self._stream([*pieces, {**self._text(body, kind, ""), **end}])
        else:
            self._json(200, {**self._text(body, kind, "".join(words)), **end})

    def _text(self, body: dict[str, Any], kind: str, text: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": text}
        return {"model": body["model"], "created_at": NOW, kind: text if kind == "response" else message}

    def _complete(self, body: dict[str, Any]) -> None:
        """A chat in OpenAI's way."""
        if _full(body["model"]) not in self.double.models:
            reason = f"model '{body['model']}' not found"
            error = {"message": reason, "type": "not_found_error", "param": None, "code": None}
            self._openai(404, {"error": error})
            return
        choice = {"index": 0, "message": {"role": "assistant", "content": " and"}, "finish_reason": "length"}
        usage = {"prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 13}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": body["model"]}
        self._openai(200, {**head, "system_fingerprint": "fp_ollama", "choices": [choice], "usage": usage})

    def _openai(self, status: int, document: dict[str, Any]) -> None:
        self._answer(status, PLAIN_JSON, compact(document))

    def _no_route(self, other_methods: set[str]) -> None:
        if self.path in other_methods:
            self._answer(405, "text/plain", b"405 method not allowed")
        else:
            self._answer(404, "text/plain", b"404 page not found")

    def _raw_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _body(self) -> dict[str, Any]:
        return json.loads(self._raw_body())

    def _json(self, status: int, document: dict[str, Any]) -> None:
        self._answer(status, JSON, compact(document))

    def _answer(self, status: int, content_type: str | None, body: bytes) -> None:
        self.send_response(status)
        if content_type:
            self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, events: Sequence[Mapping[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", LINES)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            line = json.dumps(event).encode() + b"\n"
            self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")
