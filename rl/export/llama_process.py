"""Asks llama.cpp about a GGUF file, in a process of its own: a bad file may crash it (see ``llama_child``)."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl.errors import ExportFailed

_PROJECT = Path(__file__).resolve().parents[2]
_BASE_SECONDS = 300.0
_SLOWEST_BYTES_PER_SECOND = 5e6
"""Of model file; far below what any usable machine reads and computes."""
_CONTEXT_TOKENS = 512
_LOGGED = re.compile(r"[\d.]+ [A-Z] ")
_LOGGED_ERROR = re.compile(r"[\d.]+ E (?:\S+\s+)?\S+: (?P<text>.+)")


@dataclass(frozen=True, slots=True)
class LlamaAnswer:
    tokens: list[list[int]]
    """One list of ids for each text."""
    rendered: str | None
    """The chat as the file's own template renders it."""
    continuations: list[list[tuple[int, float | None]]]
    """For each prompt, the greedy next ids with their natural-log probabilities, where llama.cpp tells them."""


def is_available() -> bool:
    return importlib.util.find_spec("xllamacpp") is not None


def greedy_tokens(gguf_path: Path, prompt: str | list[int], n: int, adapter: Path | None = None) -> list[int]:
    """Up to ``n`` ids that llama.cpp picks after ``prompt``; fewer when it ends the text, whose id is then the last."""
    answer = ask(gguf_path, prompts=[prompt], new_tokens=n, adapter=adapter)
    return [token for token, _ in answer.continuations[0]]


def ask(
    gguf_path: Path,
    *,
    texts: Sequence[str] = (),
    chat: Sequence[dict[str, str]] = (),
    prompts: Sequence[str | list[int]] = (),
    new_tokens: int = 1,
    adapter: Path | None = None,
) -> LlamaAnswer:
    """Raises ExportFailed when xllamacpp is not installed, or when it refuses the file, crashes on it or hangs."""
    if not is_available():
        raise ExportFailed("running a GGUF file needs the package xllamacpp; install it with: pip install xllamacpp")
    if not gguf_path.is_file():
        raise ExportFailed(f"there is no file {gguf_path}")
    request = {
        "model": str(gguf_path.resolve()),
        "adapter": str(adapter.resolve()) if adapter else None,
        "texts": list(texts),
        "chat": list(chat),
        "prompts": list(prompts),
        "new_tokens": new_tokens,
        "context": max([_CONTEXT_TOKENS, *(_most_tokens(prompt) + new_tokens + 16 for prompt in prompts)]),
    }
    answer = _run(request, gguf_path)
    continuations = [[(entry["id"], entry["logprob"]) for entry in line] for line in answer["continuations"]]
    return LlamaAnswer(answer["tokens"], answer["rendered"], continuations)


def _most_tokens(prompt: str | list[int]) -> int:
    """Text may become a token for every byte, and a BOS."""
    return len(prompt.encode()) + 1 if isinstance(prompt, str) else len(prompt)


def _run(request: dict[str, Any], gguf_path: Path) -> dict[str, Any]:
    seconds = _BASE_SECONDS + gguf_path.stat().st_size / _SLOWEST_BYTES_PER_SECOND
    try:
        done = subprocess.run(
            [sys.executable, "-m", "rl.export.llama_child"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            errors="replace",
            cwd=_PROJECT,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ExportFailed(f"llama.cpp gave no answer about {gguf_path.name} within {seconds:.0f} s") from None
    if done.returncode < 0:
        raise ExportFailed(f"llama.cpp crashed on {gguf_path.name} (signal {-done.returncode}){_cause(done.stderr)}")
    if done.returncode > 0:
        raise ExportFailed(f"llama.cpp cannot use {gguf_path.name}{_cause(done.stderr)}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _cause(log: str) -> str:
    """The first line of llama.cpp's log that is marked as an error (without time and function), else the last of others."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [found["text"] for line in lines if (found := _LOGGED_ERROR.match(line))]
    chosen = errors[:1] or [line for line in lines if not _LOGGED.match(line)][-1:]
    return f": {chosen[0][:300]}" if chosen else ""
