"""Asks llama.cpp about a GGUF file, in a process of its own: a bad file may crash it (see ``child``)."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rl.base.errors import ExportFailed
from rl.base.records import Report, silent

NOT_RUN = "the package xllamacpp is not installed (pip install xllamacpp), so the file was not run"
_PROJECT = Path(__file__).resolve().parents[3]
_BASE_SECONDS = 300.0
_SLOWEST_BYTES_PER_SECOND = 5e6
"""Bytes of the model file; far below what any usable machine reads and computes."""
_CONTEXT_TOKENS = 512
_LOGGED = re.compile(r"[\d.]+ [A-Z] ")
_LOGGED_ERROR = re.compile(r"[\d.]+ E (?:\S+\s+)?\S+: (?P<text>.+)")


@dataclass(frozen=True, slots=True)
class LogitsWanted:
    tokens: list[int]
    first: int
    """Number of the first token to tell about."""
    file: Path
    """Takes float32 rows, one after the other: what may come after each token from ``first`` on."""


@dataclass(frozen=True, slots=True)
class LlamaAnswer:
    tokens: list[list[int]]
    """One list of ids for each text."""
    rendered: list[str | None]
    """Each chat as the file's own template renders it; None where llama.cpp cannot."""
    chat_tokens: list[list[int]]
    """What each is served as: with the BOS that the file asks for."""
    vocabulary: int
    """Width of the rows of logits; 0 when none were wanted."""


def is_available() -> bool:
    return importlib.util.find_spec("xllamacpp") is not None


def token_log_probs(
    gguf: Path,
    sequences: Sequence[tuple[list[int], list[int]]],
    *,
    adapter: Path | None = None,
    report: Report = silent,
) -> list[float]:
    """For each prompt and answer (token ids) the sum of the natural-log probabilities of the answer's tokens, each after
    all that is before it. Computed in float32, whatever the types of the file. Answers to one prompt are best given one
    after the other: what texts have in common with the one before is not computed again. Raises ExportFailed as ``ask``
    does, and for a prompt without a token; whatever ``report`` raises ends the process."""
    if any(not prompt for prompt, _ in sequences):
        raise ExportFailed("the first token of an answer has a probability only after a prompt of at least one token")
    longest = max((len(prompt) + len(answer) for prompt, answer in sequences), default=0)
    request = {**_about(gguf, adapter), "context": longest, "scored": [list(pair) for pair in sequences]}
    log_probs: list[float] = []
    with closing(_lines(request, gguf)) as lines:
        for line in lines:
            log_probs.append(line)
            report("step", {"step": len(log_probs), "total_steps": len(sequences), "metrics": {}})
    return log_probs


def ask(
    gguf_path: Path,
    *,
    texts: Sequence[str] = (),
    chats: Sequence[dict[str, Any] | str] = (),
    adapter: Path | None = None,
    logits: LogitsWanted | None = None,
) -> LlamaAnswer:
    """``chats``: each a request, or plain text for a model without a template. Raises ExportFailed when xllamacpp is not
    installed, or when it refuses the file, crashes on it or hangs."""
    request = {
        **_about(gguf_path, adapter),
        "texts": list(texts),
        "chats": list(chats),
        "logits": logits and {"tokens": logits.tokens, "first": logits.first, "file": str(logits.file)},
        "context": max(_CONTEXT_TOKENS, len(logits.tokens) if logits else 0),
    }
    (answer,) = _lines(request, gguf_path)
    return LlamaAnswer(**answer)


def _about(gguf_path: Path, adapter: Path | None) -> dict[str, Any]:
    if not is_available():
        raise ExportFailed("running a GGUF file needs the package xllamacpp; install it with: pip install xllamacpp")
    for path in filter(None, (gguf_path, adapter)):
        if not path.is_file():
            raise ExportFailed(f"there is no file {path}")
    return {"model": str(gguf_path.resolve()), "adapter": str(adapter.resolve()) if adapter else None}


def _lines(request: dict[str, Any], gguf_path: Path) -> Generator[Any]:
    """The lines of the child's answer as they come; it is ended when they are not waited for."""
    seconds = _BASE_SECONDS + gguf_path.stat().st_size / _SLOWEST_BYTES_PER_SECOND
    with tempfile.TemporaryFile() as log, _child(request, log) as child, _Patience(child, seconds) as patience:
        for line in child.stdout or ():
            patience.renew()
            yield json.loads(line)
        status = child.wait()
        if patience.is_over:
            raise ExportFailed(f"llama.cpp gave no answer about {gguf_path.name} within {seconds:.0f} s")
        if status:
            log.seek(0)
            cause = cause_in(log.read().decode("utf-8", "replace"))
            does = f"cannot use {gguf_path.name}" if status > 0 else f"crashed on {gguf_path.name} (signal {-status})"
            raise ExportFailed(f"llama.cpp {does}{cause}")


@contextmanager
def _child(request: dict[str, Any], log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "rl.export.llama_cpp.child"]
    with tempfile.TemporaryFile() as request_file:
        request_file.write(json.dumps(request).encode())
        request_file.seek(0)
        with subprocess.Popen(command, stdin=request_file, stdout=subprocess.PIPE, stderr=log, cwd=_PROJECT) as child:
            try:
                yield child
            finally:
                child.kill()


class _Patience:
    """Ends a process that says nothing for ``seconds``."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self.process, self.seconds, self.is_over = process, seconds, False

    def __enter__(self) -> _Patience:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()

    def renew(self) -> None:
        self.timer.cancel()
        self._start()

    def _start(self) -> None:
        self.timer = threading.Timer(self.seconds, self._end)
        self.timer.daemon = True
        self.timer.start()

    def _end(self) -> None:
        self.is_over = True
        self.process.kill()


def cause_in(log: str) -> str:
    """The first line of llama.cpp's log that is marked as an error (without time and function), else the last of others."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [match["text"] for line in lines if (match := _LOGGED_ERROR.match(line))]
    causes = errors[:1] or [line for line in lines if not _LOGGED.match(line)][-1:]
    return f": {causes[0][:300]}" if causes else ""
