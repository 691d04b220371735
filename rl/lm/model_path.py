"""Is this a whole model, is that an adapter? Answered by the files that are there, before anything heavy is loaded."""

import json
import re
from pathlib import Path
from typing import Any

from rl.base.errors import RatchetError, UsageError
from rl.base.outside_files import refuse_devices_in

ADAPTER, MODEL = "adapter", "model"
"""The folders in which a run leaves what it trained: the one or the other."""
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
MODEL_CONFIG, ORIGIN = "config.json", "ratchet.json"
"""Files of a whole model; the second is ours, and says which model it was trained from."""
SCORES = "SEQ_CLS"
"""PEFT's task of an adapter with a head: it classifies, or scores."""

_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)
_PATH_STARTS = ("/", ".", "~", "data/", "models/")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")
_SINGLE = "model.safetensors"
_PICKLES = (".bin", ".pth", ".pt")
_ATTENTION = ("attn_implementation", "_attn_implementation")
"""Keys of config.json that may name a kernel on the hub: a program, which transformers would fetch."""


def check_model_path(base: str) -> str:
    """``base`` itself if it is a model directory or can only be a hub id. Whatever looks like a path is never asked of the
    hub. Raises UsageError that names what is missing."""
    path = Path(base).expanduser()
    if not base or not path.exists():
        if base.startswith(_PATH_STARTS) or not _HUB_ID.fullmatch(base):
            raise UsageError(f"no base model at {base}: there is no such folder, and a hub id looks like owner/name")
        return base
    if not path.is_dir():
        how = f"; {_to_safetensors(path)}" if path.suffix in _PICKLES else ""
        raise UsageError(f"{base} is a file; a base model is a folder with config.json and model.safetensors{how}")
    if not (path / MODEL_CONFIG).is_file():
        if is_adapter(path):
            raise UsageError(f"{path} is a LoRA adapter; give the base model that it was trained on")
        raise UsageError(f"{path} is not a model: config.json is missing")
    if missing := _missing_weights(path):
        raise UsageError(f"{path} is not a whole model: {missing}")
    if not any((path / name).is_file() for name in _TOKENIZERS):
        raise UsageError(f"{path} has no tokenizer: one of {', '.join(_TOKENIZERS)} is needed")
    refuse_devices_in(path)
    values = _read(path / MODEL_CONFIG)
    if named := [key for key in _ATTENTION if "/" in str(values.get(key) or "")]:
        raise UsageError(
            f"{path / MODEL_CONFIG} names code of others in {named[0]}, which is not run: take that key out"
        )
    return str(path)


def check_adapter(directory: Path, failure: type[RatchetError]) -> Path:
    """Raises ``failure`` when ``directory`` is not a finished adapter. A pickle, which PEFT would fall back to, is none."""
    if missing := [name for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS) if not (directory / name).is_file()]:
        raise failure(f"{directory} is not a finished adapter: it has no {' and no '.join(missing)}")
    refuse_devices_in(directory)
    return directory


def is_adapter(directory: Path) -> bool:
    return (directory / ADAPTER_CONFIG).is_file()


def check_weights(directory: Path, failure: type[RatchetError]) -> Path:
    """Raises ``failure`` when ``directory`` holds neither a finished adapter nor a whole model."""
    if is_adapter(directory):
        return check_adapter(directory, failure)
    if not (directory / MODEL_CONFIG).is_file():
        raise failure(
            f"{directory} is neither an adapter nor a whole model: it has no {ADAPTER_CONFIG} and no {MODEL_CONFIG}"
        )
    if missing := _missing_weights(directory):
        raise failure(f"{directory} is not a whole model: {missing}")
    return directory


def base_of(directory: Path) -> str:
    """The model that the adapter or the whole model there was trained from. Raises UsageError where that is not said."""
    if is_adapter(check_weights(directory, UsageError)):
        return _read_entry(directory / ADAPTER_CONFIG, "base_model_name_or_path")
    return _read_entry(directory / ORIGIN, "base_model")


def lowest_trained_layer(directory: Path) -> int:
    """The first layer that an adapter changes: those below it are the base model's. 0 for one that trains all layers."""
    layers = _read(directory / ADAPTER_CONFIG).get("layers_to_transform")
    return min(layers) if isinstance(layers, list) and layers else 0


def is_reward_model(directory: Path) -> bool:
    """Whether the adapter or the model there scores answers instead of giving them."""
    if is_adapter(directory):
        return _read(directory / ADAPTER_CONFIG).get("task_type") == SCORES
    architectures = _read(directory / MODEL_CONFIG).get("architectures") or []
    return any(str(name).endswith("ForSequenceClassification") for name in architectures)


def weight_files(directory: Path, single_file: str = _SINGLE) -> list[str]:
    """The weight files of a whole model: the one file, or its parts. Raises ValueError for an index that cannot be read, or
    that leads out of the directory."""
    index = directory / f"{single_file}.index.json"
    if (directory / single_file).is_file() or not index.is_file():
        return [single_file]
    try:
        files = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        stray = [file for file in files if not file or Path(file).name != file]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{index.name} names no weight files: {error}") from error
    if stray:
        raise ValueError(f"{index.name} names a file outside of its directory: {stray[0]}")
    return files


def _read_entry(file: Path, name: str) -> str:
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))[name])
    except FileNotFoundError:
        raise UsageError(
            f"{file.parent} does not say which model it was trained from: "
            f'write {{"{name}": "directory or hub id"}} into {file}'
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None


def _read(file: Path) -> dict[str, Any]:
    """Empty where there is none."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _missing_weights(path: Path) -> str:
    """What is wrong with the weights, or nothing. Pickled weights count as missing: loading them can run code."""
    try:
        files = weight_files(path)
    except ValueError as error:
        return str(error)
    missing = [name for name in files if not (path / name).is_file()]
    if missing == [_SINGLE]:
        pickles = sorted(file for file in path.iterdir() if file.suffix in _PICKLES)
        return f"{_SINGLE} is missing" + (f"; {_to_safetensors(pickles[0])}" if pickles else "")
    return f"{len(missing)} of {len(files)} weight files are missing, the first is {missing[0]}" if missing else ""


def _to_safetensors(pickle: Path) -> str:
    """Tensors that share their memory, such as tied embeddings, cannot be saved as they are."""
    code = (
        "import torch, safetensors.torch as s; s.save_file({k: v.clone().contiguous() for k, v in "
        f"torch.load('{pickle.name}', weights_only=True).items()}}, '{_SINGLE}', {{'format': 'pt'}})"
    )
    return f'convert the {pickle.suffix} files to safetensors first, since a pickle can run code: python -c "{code}"'
