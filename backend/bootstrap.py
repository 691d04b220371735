"""Sets the project up on a machine that has only Python. Standard library alone: it runs before anything is installed.

``quickstart``, ``test`` and ``python3 -m benchmarks`` make ``.venv`` and install the pinned requirements if that is not done
yet, then go on inside it. Inside an active virtual environment they install there. A stamp file that holds the hash of the
requirements makes a second run immediate. ``version`` and the overview of all commands need nothing. Any other verb on a
machine without Django ends with one line that names quickstart.
"""

import hashlib
import importlib.util
import os
import secrets
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from pathlib import Path

from backend.overview import write_overview
from backend.version import read_version

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
REQUIREMENTS = {
    "quickstart": ("requirements-rl.txt",),
    "test": ("requirements-rl.txt", "tests/requirements.txt"),
}
SUPPORTED = ((3, 11), (3, 13))
FIRST_ENVIRONMENT = """\
# Written by quickstart for this machine; .env.example explains every variable.
DEBUG=1
SECRET_KEY={secret}
ENABLE_ONLINE_LEARNING=1
"""


def run(arguments: Sequence[str]) -> int | None:
    """An exit code when there is nothing more to do in this process, None to go on to Django's commands."""
    verb = arguments[0] if arguments else ""
    if verb in ("version", "--version"):
        print(f"Ratchet {read_version()}")
        return 0
    if list(arguments) in ([], ["help"], ["--help"], ["-h"]):
        print(write_overview())
        return 0
    if verb in REQUIREMENTS:
        return _set_up(verb, arguments)
    if _active_environment() is None and _python(VENV).exists():
        return _again_in_venv(sys.argv)
    if importlib.util.find_spec("django") is None:
        print("Django is not installed. Start with: python3 manage.py quickstart", file=sys.stderr)
        return 1
    return None


def _set_up(verb: str, arguments: Sequence[str]) -> int | None:
    if "-h" in arguments or "--help" in arguments:
        return None if importlib.util.find_spec("django") else _print_usage()
    code = enter(verb, sys.argv, ask=verb == "quickstart" and "--yes" not in arguments)
    if code is not None:
        return code
    if verb == "test":
        return subprocess.call([sys.executable, "-m", "tests.run", *arguments[1:]], cwd=ROOT)
    _write_environment()
    return None


def enter(verb: str, command: Sequence[str], ask: bool) -> int | None:
    """Installs what ``verb`` of REQUIREMENTS needs and runs ``command``, without the interpreter, inside the environment.

    None where this process is inside already, an exit code where there is nothing more to do in it. ``ask``: a person at a
    terminal is asked before anything is installed.
    """
    if problem := _unsupported_python():
        print(problem, file=sys.stderr)
        return 1
    environment = _active_environment() or VENV
    if (code := _install(environment, REQUIREMENTS[verb], ask)) != 0:
        return code
    return None if Path(sys.prefix).resolve() == environment.resolve() else _again_in_venv(command)


def _print_usage() -> int:
    print("python3 manage.py quickstart [--no-serve] [--yes] [--json] [--port N]   set up, train, serve")
    print("python3 manage.py test [--fast] [--retry] [pytest arguments]           set up, run the tests")
    return 0


def _unsupported_python() -> str:
    if SUPPORTED[0] <= sys.version_info[:2] <= SUPPORTED[1]:
        return ""
    low, high = (".".join(map(str, version)) for version in SUPPORTED)
    return f"Ratchet needs Python {low} to {high}; this is {sys.version.split()[0]}"


def _active_environment() -> Path | None:
    """The virtual environment that this interpreter runs in, if it does."""
    return Path(sys.prefix) if sys.prefix != sys.base_prefix else None


def _python(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _again_in_venv(arguments: Sequence[str]) -> int:
    """The same command line with the environment's own interpreter, as this same process: a signal meant for a training
    must reach it, not a wrapper that dies and leaves it behind."""
    command = [str(_python(VENV)), *arguments]
    sys.stdout.flush()
    if os.name == "posix":
        os.execv(command[0], command)  # noqa: S606  no shell is wanted
    return subprocess.call(command)


def _install(environment: Path, files: Sequence[str], ask: bool) -> int:
    if any(_is_installed(environment, more) for more in REQUIREMENTS.values() if {*files} <= {*more}):
        return 0
    if ask and not _ask_for_consent(environment):
        return 1
    started = time.monotonic()
    if environment == VENV and not _python(VENV).exists():
        _say(f"making {VENV.name}")
        venv.create(VENV, with_pip=True)
    _say(f"installing {' and '.join(files)} into {environment.name} (minutes the first time, seconds afterwards)")
    if (code := _pip_install(environment, files)) != 0:
        return code
    _stamp(environment, files).write_text(_fingerprint(files))
    os.environ["RATCHET_SETUP_SECONDS"] = f"{time.monotonic() - started:.1f}"
    return 0


def _is_installed(environment: Path, files: Sequence[str]) -> bool:
    stamp = _stamp(environment, files)
    return stamp.exists() and stamp.read_text() == _fingerprint(files)


def _stamp(environment: Path, files: Sequence[str]) -> Path:
    return environment / f".ratchet-{len(files)}-installed"


def _fingerprint(files: Sequence[str]) -> str:
    """Hash of the interpreter's version and of every requirements file, included ones too."""
    included = {"requirements.txt", *files}
    texts = [(ROOT / name).read_bytes() for name in sorted(included)]
    return hashlib.sha256(b"\0".join([sys.version.encode(), *texts])).hexdigest()


def _ask_for_consent(environment: Path) -> bool:
    """Asks a person at a terminal; a script has nobody to ask and has said what it wants."""
    if not sys.stdin.isatty():
        return True
    answer = input(f"Install the packages of Ratchet (about 2 GB) into {environment}? [Y/n] ")
    return answer.strip().lower() in ("", "y", "yes")


def _pip_install(environment: Path, files: Sequence[str]) -> int:
    """Python compiles what is imported; compiling all of it here is half of the work, most of it for nothing."""
    command = [
        str(_python(environment)),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
    ]
    for name in files:
        command += ["-r", str(ROOT / name)]
    result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        print(result.stderr, file=sys.stderr)
        print("The packages could not be installed (see above). Run the same command again to go on.", file=sys.stderr)
    return 0 if result.returncode == 0 else 1


def _write_environment() -> None:
    """Settings for a machine that has none: local, with debugging, and with a secret of its own."""
    target = ROOT / ".env"
    if target.exists() or os.environ.get("SECRET_KEY") or os.environ.get("SECRET_KEY_FILE"):
        return
    temporary = target.with_name(".env.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        handle.write(FIRST_ENVIRONMENT.format(secret=secrets.token_urlsafe(50)))
    temporary.replace(target)


def _say(text: str) -> None:
    print(f"[set-up] {text}", file=sys.stderr, flush=True)
