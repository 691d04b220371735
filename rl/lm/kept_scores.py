"""Log-probabilities of answers are kept below DATA_DIR, so that later runs, a run that goes on, and evaluation read what was
computed before.

There is a file for whatever decides the numbers: the model's weights and configuration, the precision, the device, the
libraries, and whether a pass is a tree. In it stand digests of token ids, and numbers. A number that was computed among
other answers may differ in its last digits, as sums do in another order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from rl.base.files import replacing
from rl.base.locks import exclusive_lock
from rl.base.records import Report
from rl.lm import processes
from rl.lm.fingerprint import fingerprint
from rl.lm.log_probs import PromptAndAnswer, Sequences, answer_log_probs
from rl.lm.score_folder import score_folder

MOST_SCORES: Final = 500_000
"""In a file; the oldest make room."""
MOST_BYTES: Final = 64 * 2**20
"""All files together have; those that were not used for longest make room."""
_DIGEST: Final = 16
_ENTRY: Final = np.dtype([("key", f"S{_DIGEST}"), ("score", "<f4")])
Entries = NDArray[Any]
"""An array of _ENTRY."""
Scores = NDArray[np.float32]


def kept_log_probs(
    model: torch.nn.Module, sequences: Sequences, autocast: torch.dtype | None, report: Report
) -> list[float]:
    """As ``answer_log_probs``, of what was not computed before. Processes that train together go by what the first of them
    has kept; where the model is cut among them, nothing is."""
    if processes.cuts_models():
        return answer_log_probs(model, sequences, autocast, report)
    kept = _KeptScores(fingerprint(model, autocast), report) if processes.is_first() else None
    keys = _keys_of(sequences) if kept else np.empty(0, _ENTRY["key"])
    scores: Scores = np.array(processes.gather_items(kept.find(keys).tolist() if kept else []), np.float32)
    missing = np.flatnonzero(np.isnan(scores))
    before = len(scores) - len(missing)
    if before:
        report("log", {"text": f"{before} of {len(scores)} answers were scored before"})
        report("step", {"step": before, "total_steps": len(scores), "metrics": {}})
    if len(missing):
        left = _Part(sequences, missing)
        scores[missing] = answer_log_probs(model, left, autocast, _counted_on(report, before))
        if kept:
            kept.add(keys[missing], scores[missing])
    values: list[float] = scores.tolist()
    return values


class _Part:
    """Some of the sequences, by their numbers, which ascend."""

    def __init__(self, whole: Sequences, numbers: NDArray[np.intp]) -> None:
        self._whole, self._numbers = whole, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int) -> PromptAndAnswer:
        return self._whole[int(self._numbers[index])]

    def __iter__(self) -> Iterator[PromptAndAnswer]:
        wanted = set(self._numbers.tolist())
        return (sequence for number, sequence in enumerate(self._whole) if number in wanted)


class _KeptScores:
    """Those that a model gave. ``mark``: its fingerprint."""

    def __init__(self, mark: str, report: Report) -> None:
        self._file, self._report = score_folder() / mark, report

    def find(self, keys: NDArray[np.bytes_]) -> Scores:
        """Not a number where none is kept."""
        scores = np.full(len(keys), np.nan, np.float32)
        entries = self._read()
        if len(entries) and len(keys):
            entries = entries[np.argsort(entries["key"])]
            at = np.minimum(np.searchsorted(entries["key"], keys), len(entries) - 1)
            scores = np.where(entries["key"][at] == keys, entries["score"][at], scores)
            with suppress(OSError):
                os.utime(self._file)
        return scores

    def add(self, keys: NDArray[np.bytes_], scores: Scores) -> None:
        """A full disk keeps nothing, and stops nobody."""
        new = np.empty(len(keys), _ENTRY)
        new["key"], new["score"] = keys, scores
        new = new[np.isfinite(scores)]
        try:
            with exclusive_lock(score_folder() / "lock"):
                self._write(np.concatenate([self._read(), new]))
                _make_room()
        except OSError as error:
            self._report("log", {"text": f"the scores of answers could not be kept: {error.strerror}"})

    def _read(self) -> Entries:
        try:
            content = self._file.read_bytes()
        except FileNotFoundError:
            return np.empty(0, _ENTRY)
        except OSError as error:
            return self._give_up(f"cannot be read ({error.strerror})")
        body = content[_DIGEST:]
        return np.frombuffer(body, _ENTRY) if _digest(body) == content[:_DIGEST] else self._give_up("is damaged")

    def _give_up(self, why: str) -> Entries:
        self._report("log", {"text": f"{self._file} {why}: the scores of its answers are computed again"})
        return np.empty(0, _ENTRY)

    def _write(self, entries: Entries) -> None:
        """Whatever stands there twice is written once, as it came last."""
        _, last = np.unique(entries["key"][::-1], return_index=True)
        body = entries[np.sort(len(entries) - 1 - last)][-MOST_SCORES:].tobytes()
        with replacing(self._file, "wb") as handle:
            handle.write(_digest(body) + body)


def _make_room() -> None:
    files = [file for file in score_folder().iterdir() if file.is_file()]
    size = 0
    for file in sorted(files, key=lambda file: -file.stat().st_mtime):
        size += file.stat().st_size
        if size > MOST_BYTES:
            file.unlink(missing_ok=True)


def _keys_of(sequences: Sequences) -> NDArray[np.bytes_]:
    """A digest of the token ids of each prompt and answer."""
    digests = b"".join(_digest(_bytes_of(prompt), _bytes_of(answer)) for prompt, answer in sequences)
    return np.frombuffer(digests, _ENTRY["key"])


def _bytes_of(ids: Sequence[int]) -> bytes:
    return np.array(ids, "<i4").tobytes()


def _digest(*parts: bytes) -> bytes:
    """The parts decide it, and where each ends."""
    digest = blake2b(digest_size=_DIGEST)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def _counted_on(report: Report, before: int) -> Report:
    """Steps are counted with those that were done before."""

    def tell(event: str, values: dict[str, Any]) -> None:
        if event == "step":
            values = {**values, "step": values["step"] + before, "total_steps": values["total_steps"] + before}
        report(event, values)

    return tell
