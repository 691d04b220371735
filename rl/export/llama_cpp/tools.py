"""What of llama.cpp a person has installed beside us: a checkout of it, and its program ``llama-quantize``."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rl.base.errors import ExportFailed
from rl.base.foreign_programs import system_variables
from rl.base.records import Report, silent

VARIABLE = "LLAMA_CPP_DIR"
SCRIPT = "convert_hf_to_gguf.py"
PROGRAM = "llama-quantize"
_BINARIES = ("build/bin", "build/bin/Release", "bin")
_BASE_SECONDS = 900.0
_LOOK_SECONDS = 0.5
_SLOWEST_BYTES_PER_SECOND = 1e6


def checkout() -> Path | None:
    """Raises ExportFailed when the variable names no folder."""
    setting = os.environ.get(VARIABLE, "").strip()
    if not setting:
        return None
    folder = Path(setting).expanduser()
    if not folder.is_dir():
        what = f"{VARIABLE} is {setting}, which is not a folder"
        raise ExportFailed(f"{what}: set it to a checkout of llama.cpp, or unset it")
    return folder.resolve()


def convert_script() -> Path | None:
    """Raises ExportFailed for a checkout without it."""
    folder = checkout()
    if folder is None:
        return None
    if not (folder / SCRIPT).is_file():
        raise ExportFailed(f"{VARIABLE} is {folder}, which has no {SCRIPT}: set it to a checkout of llama.cpp")
    return folder / SCRIPT


def quantize_program() -> str | None:
    """Its path: the one on PATH, else the one that was built in the checkout."""
    folder = checkout()
    search_path = os.pathsep.join(str(folder / subfolder) for subfolder in _BINARIES) if folder else ""
    return shutil.which(PROGRAM) or (shutil.which(PROGRAM, path=search_path) if search_path else None)


def run_script(
    script: Path, model_dir: Path, destination: Path, level: str, name: str, report: Report = silent
) -> None:
    """Raises ExportFailed with the last line that the script wrote when it fails. ``report`` gets ``waiting`` twice a
    second; what it raises ends the script."""
    arguments = [str(model_dir), "--outfile", str(destination), "--outtype", level, "--model-name", name]
    size = sum(path.stat().st_size for path in model_dir.glob("*.safetensors"))
    _run([sys.executable, str(script), *arguments], f"{script.name} of {VARIABLE}", destination, size, report)


def run_program(
    program: str, source: Path, destination: Path, level: str, threads: int, report: Report = silent
) -> None:
    """As ``run_script``."""
    command = [program, str(source), str(destination), level.upper(), str(threads)]
    _run(command, PROGRAM, destination, source.stat().st_size, report)


def _run(command: Sequence[str], what: str, destination: Path, input_bytes: int, report: Report) -> None:
    seconds = _BASE_SECONDS + input_bytes / _SLOWEST_BYTES_PER_SECOND
    environment = system_variables() | {"HF_HUB_OFFLINE": "1"}
    files: dict[str, Any] = {"stdin": subprocess.DEVNULL, "cwd": destination.parent, "env": environment}
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(command, stdout=log, stderr=log, **files)
        except OSError as error:
            raise ExportFailed(f"cannot start {command[0]}: {error.strerror}") from error
        with process:
            try:
                if not _wait(process, seconds, report):
                    raise ExportFailed(f"{what} was not done within {seconds:.0f} s")
            finally:
                process.kill()  # nothing, where it has ended
        log.seek(0)
        lines = [line.strip() for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
    if process.returncode or not destination.is_file():
        message = lines[-1][:300] if lines else "it said nothing"
        raise ExportFailed(f"{what} failed ({process.returncode}): {message}")


def _wait(process: subprocess.Popen[bytes], seconds: float, report: Report) -> bool:
    """Whether it ended in time."""
    last = time.monotonic() + seconds
    while time.monotonic() < last:
        try:
            process.wait(_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            report("waiting", {})
        else:
            return True
    return False
