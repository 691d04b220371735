"""The official client of Ollama, and what each way of failing means to the person who reads of it.

Redirects are not followed and proxies not used: what is sent goes to the configured address or nowhere."""

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import httpx
import ollama

from rl.base.errors import ExportFailed

_REMEDIES = {
    "no space left": "free space on the disk that holds Ollama's models (OLLAMA_MODELS), and try again",
    "digest mismatch": "the file changed or was damaged on its way; try again",
    "unknown type": "the file is not a GGUF model; export it again",
}
_NUMBER = re.compile(r"\[Errno -?\d+\] ")


class Client(ollama.Client):
    """With the server's version, and with uploads whose progress can be followed."""

    def __init__(self, url: str, seconds: float) -> None:
        """``seconds``: the longest silence."""
        self.url, self.seconds = url, seconds
        super().__init__(
            url,
            follow_redirects=False,
            trust_env=False,
            timeout=seconds,
            verify=_certificates(),
            event_hooks={"response": [self._refuse_redirects]},
        )

    def version(self) -> str:
        answer = self._client.get("/api/version")
        try:
            version = answer.json()["version"]
        except (ValueError, KeyError, TypeError):
            version = None
        if answer.status_code != 200 or not isinstance(version, str):
            raise _not_ollama(self.url, f"HTTP {answer.status_code} for /api/version")
        return version

    def has_blob(self, digest: str) -> bool:
        answer = self._client.head(f"/api/blobs/{digest}")
        if answer.status_code != 404 and not answer.is_success:
            raise ollama.ResponseError(answer.reason_phrase, answer.status_code)
        return answer.is_success

    def send_blob(self, digest: str, pieces: Iterator[bytes], size: int) -> None:
        headers = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
        self._request_raw("POST", f"/api/blobs/{digest}", content=pieces, headers=headers)

    @contextmanager
    def explain_failures(self, doing: str) -> Iterator[None]:
        """Tells of all that the server and the network do as ExportFailed; ``doing``: what is refused if it is."""
        try:
            yield
        except ollama.ResponseError as error:
            raise _refusal(doing, error) from error
        except (ConnectionError, httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise ExportFailed(
                f"Ollama does not answer at {self.url} ({_describe_cause(error)}): start it with 'ollama serve', "
                "or correct OLLAMA_URL"
            ) from error
        except httpx.TimeoutException:
            raise ExportFailed(
                f"Ollama at {self.url} said nothing for {self.seconds:g} s; see its log, and try again"
            ) from None
        except httpx.HTTPError as error:
            raise ExportFailed(
                f"the connection to Ollama at {self.url} broke off ({_describe_cause(error)}); see its log, and try again"
            ) from error
        except (ValueError, TypeError, AttributeError) as error:  # not JSON, or JSON of another shape
            raise _not_ollama(self.url, f"it was asked {doing}") from error

    def _refuse_redirects(self, response: httpx.Response) -> None:
        if response.is_redirect:
            raise ExportFailed(
                f"{self.url} redirects to {response.headers['Location']}, which is not followed; "
                "set OLLAMA_URL to the address of Ollama itself"
            )


@cache
def _certificates() -> ssl.SSLContext:
    """Read once: it takes longer than most requests."""
    return httpx.create_ssl_context(trust_env=False)


def _refusal(doing: str, error: ollama.ResponseError) -> ExportFailed:
    """The status is -1 for an error that came after the first line of a stream, which began with HTTP 200."""
    message = " ".join(str(error.error).split())[:300] or f"HTTP {error.status_code}"
    remedy = next((text for sign, text in _REMEDIES.items() if sign in message.lower()), "")
    return ExportFailed(f"Ollama refused {doing}: {message}" + (f" ({remedy})" if remedy else ""))


def _not_ollama(url: str, why: str) -> ExportFailed:
    return ExportFailed(f"what answers at {url} is not Ollama ({why}); correct OLLAMA_URL")


def _describe_cause(error: BaseException) -> str:
    """The official client words a refused connection in its own way, and keeps the cause in its context."""
    cause = error.__context__ if isinstance(error, ConnectionError) and error.__context__ else error
    return _NUMBER.sub("", str(cause)) or type(cause).__name__
