"""Is this a base model, is that an adapter? Answered by the files that are there, before anything heavy is loaded."""

from __future__ import annotations

import json
import re
from pathlib import Path

from rl.errors import RatchetError, UsageError

ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
SCORES = "SEQ_CLS"
"""PEFT's task of an adapter with a head: it classifies, or scores."""

_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)
_PATH_STARTS = ("/", ".", "~", "data/", "models/")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")
_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"


def check_model_path(base: str) -> str:
    """``base`` itself if it is a model directory or can only be a hub id.

    Whatever looks like a path is never asked of the hub. Raises UsageError that names what is missing.
    """
    path = Path(base).expanduser()
    if base and path.is_dir():
        return str(_checked_directory(path))
    if base and path.exists():
        raise UsageError(f"{base} is a file; a base model is a folder with config.json and model.safetensors")
    if base.startswith(_PATH_STARTS) or not _HUB_ID.fullmatch(base):
        raise UsageError(f"no base model at {base}: there is no such folder, and a hub id looks like owner/name")
    return base


def check_adapter(directory: Path, failure: type[RatchetError]) -> Path:
    """Raises ``failure`` when ``directory`` is no finished adapter. A pickle, which PEFT would fall back to, is none."""
    if missing := [name for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS) if not (directory / name).is_file()]:
        raise failure(f"{directory} is not a finished adapter: it has no {' and no '.join(missing)}")
    return directory


def is_reward_model(directory: Path) -> bool:
    """Whether the adapter there scores answers instead of giving them."""
    try:
        config = json.loads((directory / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("task_type") == SCORES


def _checked_directory(path: Path) -> Path:
    if not (path / "config.json").is_file():
        if (path / ADAPTER_CONFIG).is_file():
            raise UsageError(f"{path} is a LoRA adapter; give the base model that it was trained on")
        raise UsageError(f"{path} is no model: config.json is missing")
    if missing := _missing_weights(path):
        raise UsageError(f"{path} is no whole model: {missing}")
    if not any((path / name).is_file() for name in _TOKENIZERS):
        raise UsageError(f"{path} has no tokenizer: one of {', '.join(_TOKENIZERS)} is needed")
    return path


def _missing_weights(path: Path) -> str:
    """What is wrong with the weights, or nothing. Pickled weights count as missing: loading them can run code."""
    if (path / _SINGLE).is_file():
        return ""
    if not (path / _INDEX).is_file():
        pickled = any(path.glob("*.bin"))
        return f"{_SINGLE} is missing" + ("; convert the .bin files to safetensors first" if pickled else "")
    try:
        shards = set(json.loads((path / _INDEX).read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{_INDEX} cannot be read"
    missing = sorted(name for name in shards if not (path / name).is_file())
    return f"{len(missing)} of {len(shards)} weight files are missing, the first is {missing[0]}" if missing else ""
