"""One HTTP exchange with Ollama, and what each way of failing means to the person who reads of it.

Redirects are not followed and proxies not used: what is sent goes to the configured address or nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from rl.errors import ExportFailed, UsageError

CHUNK = 1 << 20
"""Bytes sent at once."""
_ANSWER_LIMIT = 1 << 20
"""Bytes of an answer that are read; none of those asked for here is longer."""
_REMEDIES = {
    "no space left": "free space on the disk that holds Ollama's models (OLLAMA_MODELS), and try again",
    "digest mismatch": "the file changed or was damaged on its way; try again",
    "unknown type": "the file is no GGUF model; export it again",
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where Ollama is."""

    url: str
    secure: bool
    host: str
    port: int | None
    prefix: str
    """Path before ``/api``, without a slash at its end."""

    @classmethod
    def parse(cls, url: str) -> Endpoint:
        """Raises UsageError for what is no plain http or https address."""
        try:
            parts = urlsplit(url)
            port, host = parts.port, parts.hostname
        except ValueError as error:
            raise UsageError(f"Ollama's address {url!r} is not usable: {error}") from None
        if parts.scheme not in ("http", "https") or not host or parts.username or parts.query or parts.fragment:
            raise UsageError(f"Ollama's address {url!r} is not usable: write http://host:port or https://host:port")
        return cls(url.rstrip("/"), parts.scheme == "https", host, port, parts.path.rstrip("/"))

    @contextmanager
    def exchange(
        self, method: str, path: str, body: Any = None, *, length: int | None = None, timeout: float
    ) -> Iterator[HTTPResponse]:
        """An answer that the caller reads; any status. ``body``: JSON, or an iterable of ``length`` bytes in all.

        Raises ExportFailed for all that the network does, then and while the answer is read. ``timeout`` is the longest
        silence in seconds.
        """
        connection = self._connect(timeout)
        try:
            yield _send(connection, method, self.prefix + path, body, length)
        except TimeoutError:
            raise ExportFailed(
                f"Ollama at {self.url} said nothing for {timeout:g} s; see its log, and try again"
            ) from None
        except (OSError, HTTPException) as error:
            raise ExportFailed(
                f"the connection to Ollama at {self.url} broke off ({_described(error)}); see its log, and try again"
            ) from error
        finally:
            connection.close()

    def _connect(self, timeout: float) -> HTTPConnection:
        kind = HTTPSConnection if self.secure else HTTPConnection
        connection = kind(self.host, self.port, timeout=timeout, blocksize=CHUNK)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise ExportFailed(
                f"Ollama does not answer at {self.url} ({_described(error)}): start it with 'ollama serve', "
                "or correct OLLAMA_URL"
            ) from error
        return connection

    def check(self, response: HTTPResponse, doing: str) -> None:
        """Raises ExportFailed, saying what was refused (``doing``) and why, unless the status is a success."""
        if 300 <= response.status < 400:
            raise ExportFailed(
                f"{self.url} redirects to {response.headers.get('Location', 'elsewhere')}, which is not followed; "
                "set OLLAMA_URL to the address of Ollama itself"
            )
        if not 200 <= response.status < 300:
            raise refusal(doing, document(response).get("error") or f"HTTP {response.status} {response.reason}")


def refusal(doing: str, reason: object) -> ExportFailed:
    """``reason``: as Ollama words it."""
    said = " ".join(str(reason).split())[:300]
    remedy = next((text for sign, text in _REMEDIES.items() if sign in said.lower()), "")
    return ExportFailed(f"Ollama refused {doing}: {said}" + (f" ({remedy})" if remedy else ""))


def document(response: HTTPResponse) -> dict[str, Any]:
    """The JSON object of an answer; empty when it holds something else."""
    return json_object(response.read(_ANSWER_LIMIT))


def json_object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _send(connection: HTTPConnection, method: str, path: str, body: Any, length: int | None) -> HTTPResponse:
    headers = {"Content-Length": str(length), "Content-Type": "application/octet-stream"}
    if length is None:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        body = json.dumps(body).encode() if body is not None else None
    # Ollama may answer before it has read everything (a full disk): that answer says more than the broken pipe.
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.request(method, path, body=body, headers=headers)
    return connection.getresponse()


def _described(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
