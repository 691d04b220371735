"""``python3 manage.py test``: first the tests that need no other process and no torch, in random order, then those that need
no torch, and beside them all else, whose output comes behind theirs.

Options of its own: ``--fast`` runs the first part only; with ``--retry``, as in CI, what fails in the others runs once more
at the end, alone. All other options are pytest's; with one of those, there is one run, of what they name.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.failed import AGAIN

ROOT = Path(__file__).resolve().parents[1]
CORES = os.cpu_count() or 1
ORDER = ("-p", "randomly", "--randomly-seed", str(random.randrange(2**32)))
"""Another each time, and said: with the same words pytest gives it again."""
UNIT = ("--tier", "unit", *ORDER, "--forks", str(min(4, CORES)))
PROCESS, LEARN = (("--tier", tier, "--forks", str(min(4, CORES + 1))) for tier in ("process", "learn"))
"""More than there are cores: browsers, servers and installers are waited for while other tests compute."""
LUCK = 3
"""More tests than this that fail at first are no bad luck."""
LIST = "tests/flaky.md"


def main(arguments: Sequence[str]) -> int:
    own = [word for word in arguments if word in ("--fast", "--retry")]
    others = [word for word in arguments if word not in own]
    parts = [(*UNIT, *others)] if "--fast" in own else [others] if others else [UNIT, PROCESS, LEARN]
    if any(part[: len(UNIT)] == UNIT for part in parts):
        print("order of the quick tests:", *ORDER, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, str(number)) for number in range(len(parts))]
        first, *others = ((*part, "--write-failed", str(file)) for part, file in zip(parts, files, strict=True))
        codes = [_pytest(*first), *(_beside(*others, Path(folder, "told")) if others else ())]
        failed = [line for file in files if file.exists() for line in file.read_text(encoding="utf-8").splitlines()]
    may_be_luck = "--retry" in own and max(codes) == pytest.ExitCode.TESTS_FAILED
    return _try_again(failed) if may_be_luck else max(codes)


def _beside(first: Sequence[str], second: Sequence[str], file: Path) -> tuple[int, int]:
    """``file``: what the second has printed while the first ran, and now has to wait."""
    with file.open("wb") as told, file.open("rb") as kept, ThreadPoolExecutor(1) as pool:
        beside = pool.submit(_pytest, *second, told=told)
        code, ended = _pytest(*first), False
        while not ended:
            _, running = wait([beside], timeout=1)
            ended = not running
            shutil.copyfileobj(kept, sys.stdout.buffer)
            sys.stdout.flush()
        return code, beside.result()


def _try_again(failed: Sequence[str]) -> int:
    names = [line.removeprefix(AGAIN) for line in failed if line.startswith(AGAIN)]
    if not 0 < len(names) == len(failed) <= LUCK:
        print(
            f"not tried again: {len(failed)} failed; only up to {LUCK}, none of the tier unit, may be bad luck",
            flush=True,
        )
        return 1
    if (code := _pytest(*names)) == 0:
        print(f"flaky, for they passed alone ({LIST} has the causes that are known):")
        print("\n".join(f"  {name}" for name in names), flush=True)
    return code


def _pytest(*arguments: str, told: BinaryIO | None = None) -> int:
    """Bytecode is kept: else each of the thousand processes that tests start would compile all that it imports."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.call(command, cwd=ROOT, env=environment, stdout=told, stderr=told and subprocess.STDOUT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
