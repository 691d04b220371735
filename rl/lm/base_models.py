"""The model that an agent starts from: one of the two that come with Ratchet, a folder, a GGUF file, or a hub id.

An agent names it; ``resolve`` makes a folder (or a bare hub id) of the name, which may fetch or unpack something first."""

import hashlib
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from django.conf import settings

from rl.base.errors import UsageError
from rl.base.leaves import leaf
from rl.base.locks import exclusive_lock
from rl.base.records import Report
from rl.config.embedded_models import SMOLLM2, TINY
from rl.lm.model_path import MODEL_CONFIG, check_model_path
from rl.lm.smollm2 import UNPACKER

BUILDERS: Final[Mapping[str, str]] = {SMOLLM2: "rl.lm.smollm2", TINY: "rl.lm.tiny_model"}
"""Name to a module with ``build(target_dir, report)``."""
GGUF_SUFFIX = ".gguf"


def folder_of(name: str) -> Path:
    """The folder of a model that comes with Ratchet, or of what was unpacked under that name."""
    return settings.DATA_DIR / "base_models" / name


def resolve(base_model: str, report: Report) -> str:
    """A folder or a hub id that can be loaded. Raises UsageError for what can be neither, before anything heavy is
    imported, and for what cannot be fetched."""
    if base_model in BUILDERS:
        return str(_build_once(folder_of(base_model), lambda folder: leaf(BUILDERS[base_model]).build(folder, report)))
    if base_model.endswith(GGUF_SUFFIX):
        file = _gguf_file(base_model)
        return str(_build_once(_unpacked_folder(file), lambda folder: leaf(UNPACKER).unpack(file, folder, report)))
    name, revision = _hub_id(base_model)
    if revision:
        return str(leaf("rl.lm.hub").snapshot(check_model_path(name), revision, report))
    return check_model_path(base_model)


def require(base_model: str) -> None:
    """Asks the hub for the config.json of a model that is not here yet, and for nothing more; torch is not needed. Raises
    UsageError for a model that is neither here nor there."""
    if base_model in BUILDERS or local_folder(base_model).is_dir() or base_model.endswith(GGUF_SUFFIX):
        return
    hub = leaf("huggingface_hub")
    name, revision = _hub_id(base_model)
    try:
        hub.hf_hub_download(name, MODEL_CONFIG, revision=revision or None)
    except (OSError, ValueError) as error:  # all of the hub's own errors are one of the two
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise UsageError(
            f"there is no base model {base_model}: neither a folder here nor on the hub ({reason})"
        ) from error


def local_folder(base_model: str) -> Path:
    """Where the model's files are on this machine: in its folder, or in the hub's cache; else a folder that is not there.
    Fetches nothing. Raises UsageError for what is not a base model."""
    if base_model in BUILDERS:
        return folder_of(base_model)
    if base_model.endswith(GGUF_SUFFIX):
        return _unpacked_folder(_gguf_file(base_model))
    name, revision = _hub_id(base_model)
    source = check_model_path(name)
    if not Path(source).is_dir() and importlib.util.find_spec("huggingface_hub"):
        from huggingface_hub import try_to_load_from_cache

        if isinstance(cached := try_to_load_from_cache(source, MODEL_CONFIG, revision=revision or None), str):
            return Path(cached).parent
    return Path(source)


def tokenizer_file(directory: Path) -> Path | None:
    """None where it is not on this machine, or the package that reads it is not: the site goes without."""
    file = directory / "tokenizer.json"
    return file if importlib.util.find_spec("tokenizers") and file.is_file() else None


def _hub_id(base_model: str) -> tuple[str, str]:
    """``owner/name@revision`` in two; the revision is empty where none is pinned, and for a folder with an @ in its name."""
    if Path(base_model).exists():
        return base_model, ""
    name, _, revision = base_model.partition("@")
    return name, revision


def loaded_name(base_model: str) -> str:
    """What ``resolve`` gives, or would; fetches nothing. Raises UsageError."""
    has_folder = base_model in BUILDERS or base_model.endswith(GGUF_SUFFIX) or _hub_id(base_model)[1]
    return str(local_folder(base_model)) if has_folder else check_model_path(base_model)


def _build_once(folder: Path, make: Callable[[Path], Path]) -> Path:
    """The first of several processes makes the folder; the others wait for it."""
    with exclusive_lock(folder.with_name(f".{folder.name}.lock")):
        return folder if (folder / MODEL_CONFIG).exists() else make(folder)


def _gguf_file(base_model: str) -> Path:
    file = Path(base_model).expanduser()
    if not file.is_file():
        raise UsageError(f"no base model at {base_model}: there is no such file")
    return file.resolve()


def _unpacked_folder(file: Path) -> Path:
    """The folder of what is unpacked from the file; another file of the same name has another one."""
    about = file.stat()
    mark = hashlib.sha256(f"{file}\n{about.st_size}\n{about.st_mtime_ns}".encode()).hexdigest()[:12]
    return folder_of(f"{file.stem}-{mark}")
