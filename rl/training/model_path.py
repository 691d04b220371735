"""Is this string a base model? Answered before anything heavy is loaded; needs no torch."""

from __future__ import annotations

import json
import re
from pathlib import Path

from rl.errors import TrainingFailed

_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)
_PATH_STARTS = ("/", ".", "~", "data/", "models/")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")
_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"


def check_model_path(base: str) -> str:
    """``base`` itself if it is a model directory or can only be a hub id.

    Whatever looks like a path is never asked of the hub. Raises TrainingFailed that names what is missing.
    """
    path = Path(base).expanduser()
    if base and path.is_dir():
        return str(_checked_directory(path))
    if base and path.exists():
        raise TrainingFailed(f"{base} is a file; a base model is a folder with config.json and model.safetensors")
    if base.startswith(_PATH_STARTS) or not _HUB_ID.fullmatch(base):
        raise TrainingFailed(f"no base model at {base}: there is no such folder, and a hub id looks like owner/name")
    return base


def _checked_directory(path: Path) -> Path:
    if not (path / "config.json").is_file():
        if (path / "adapter_config.json").is_file():
            raise TrainingFailed(f"{path} is a LoRA adapter; give the base model that it was trained on")
        raise TrainingFailed(f"{path} is no model: config.json is missing")
    if missing := _missing_weights(path):
        raise TrainingFailed(f"{path} is no whole model: {missing}")
    if not any((path / name).is_file() for name in _TOKENIZERS):
        raise TrainingFailed(f"{path} has no tokenizer: one of {', '.join(_TOKENIZERS)} is needed")
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
