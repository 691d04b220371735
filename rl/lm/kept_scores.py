"""Log-probabilities of answers are kept below DATA_DIR, so that later runs, a run that goes on, and evaluation read what was
computed before.

There is a file for whatever decides the numbers: the model's weights and configuration, the precision, the device, the
libraries, and whether a pass is a tree. In it stand digests of token ids, and numbers. A number that was computed among
other answers may differ in its last digits, as sums do in another order."""

import json
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from hashlib import blake2b, sha256
from typing import Any, Final

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor
from transformers import PreTrainedModel

from rl.base.files import replacing
from rl.base.locks import exclusive_lock
from rl.base.records import Report
from rl.lm import processes
from rl.lm.loading import base_within
from rl.lm.log_probs import PromptAndAnswer, Sequences, answer_log_probs
from rl.lm.score_folder import score_folder
from rl.lm.token_tree.sharing import shares_tokens

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
    # a digest of the token ids of each prompt and answer
    pairs = ([np.array(ids, "<i4").tobytes() for ids in pair] for pair in sequences) if kept else ()
    keys = np.frombuffer(b"".join(_digest(*pair) for pair in pairs), _ENTRY["key"])
    scores: Scores = np.array(processes.gather_items(kept.find(keys).tolist() if kept else []), np.float32)
    missing = np.flatnonzero(np.isnan(scores))
    before = len(scores) - len(missing)
    if before:
        report("log", {"text": f"{before} of {len(scores)} answers were scored before"})
        report("step", {"step": before, "total_steps": len(scores), "metrics": {}})

    def count_on(event: str, values: dict[str, Any]) -> None:
        """Steps are counted with those that were done before."""
        if event == "step":
            values = {**values, "step": values["step"] + before, "total_steps": values["total_steps"] + before}
        report(event, values)

    if len(missing):
        scores[missing] = answer_log_probs(model, _Part(sequences, missing), autocast, count_on)
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


def _digest(*parts: bytes) -> bytes:
    """The parts decide it, and where each ends."""
    digest = blake2b(digest_size=_DIGEST)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


_NO_MATTER: Final = {"_name_or_path", "use_cache", "transformers_version"}
"""In a configuration: what the numbers do not depend on."""


def fingerprint(model: torch.nn.Module, autocast: torch.dtype | None) -> str:
    """The same for the same weights and settings, wherever they lie, in hexadecimal digits: of all that decides which
    numbers a pass of the model gives, to rounding. Without an adapter that is turned off. Reads all weights."""
    base = base_within(model)
    layers = [layer for layer in model.modules() if isinstance(layer, BaseTunerLayer)]
    names = {name for layer in layers if not layer.disable_adapters for name in layer.active_adapters}
    configs = model.peft_config.items() if isinstance(model, PeftModel) else ()
    live = {name: config.to_dict() for name, config in configs if name in names}
    digest = sha256()
    about = {
        "model": type(base).__name__,
        "config": {name: value for name, value in base.config.to_dict().items() if name not in _NO_MATTER},
        "adapters": live,
        "autocast": str(autocast),
        "device": base.device.type,
        "libraries": [torch.__version__, transformers.__version__],
        "tree": shares_tokens(base),
    }

    def order(value: Any) -> Any:
        """A set has another order in each process."""
        return sorted(map(str, value)) if isinstance(value, (set, frozenset)) else str(value)

    digest.update(json.dumps(about, sort_keys=True, default=order).encode())
    for name, tensor in _weights(base, live):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:32]


def _weights(base: PreTrainedModel, live: Collection[str]) -> Iterator[tuple[str, Tensor]]:
    """By their names without an adapter, in order; tied ones once."""
    plain = {}
    for name, tensor in base.state_dict().items():
        # LoRA's weights stand under the name of their adapter
        takes_part = ".lora_" not in name or any(f".{adapter}." in f"{name}." for adapter in live)
        if isinstance(tensor, Tensor) and takes_part:
            plain[name.replace(".base_layer", "")] = tensor
    seen: set[tuple[int, torch.Size]] = set()
    for name, tensor in sorted(plain.items()):
        memory = (tensor.data_ptr(), tensor.shape)
        if memory not in seen:
            seen.add(memory)
            yield name, tensor
