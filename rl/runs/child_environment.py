"""What a process that trains sees of our environment: what its libraries need, Ratchet's settings that are not secret, and
the variables that TRAINING_ENVIRONMENT names. ``.env`` is not read there.

A run needs the database, and the key of the llama.cpp servers that it may start. It gets each through a pipe that can be
read once, so that neither is in its environment, nor in that of anything it starts. Its SECRET_KEY is one of its own.
"""

import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from django.conf import settings

from backend.environment import plain_names
from rl.base.files import write_text

_KNOWN = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|TZ|LANG|LANGUAGE|LC_\w+|TMPDIR|TEMP|TMP|XDG_\w+|VIRTUAL_ENV|LD_LIBRARY_PATH"
    r"|DJANGO_SETTINGS_MODULE|PYTHON(PATH|UTF8|HASHSEED|IOENCODING|UNBUFFERED|WARNINGS|DONTWRITEBYTECODE)|NO_COLOR"
    r"|(https?|all|no)_proxy|(HTTPS?|ALL|NO)_PROXY|SSL_CERT_(FILE|DIR)|(REQUESTS|CURL)_CA_BUNDLE"
    r"|(CUDA|NVIDIA|NCCL|GLOO|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|HIP|HSA|ROCM|ROCR|OMP|GOMP|KMP|MKL|OPENBLAS|GGML)_\w+"
    r"|(HF|HUGGINGFACE|TRANSFORMERS|TOKENIZERS|ACCELERATE|FSDP|BNB|VLLM|MPL)\w+"
)
"""Variables of the system and of the libraries that train; some models cannot be fetched without HF_TOKEN."""


@contextmanager
def of_run(trackers: Iterable[str]) -> Iterator[tuple[dict[str, str], tuple[int, ...]]]:
    """Variables, and descriptors that the process inherits, once: they are closed here when the block is left. ``trackers``:
    names of TRACKERS, whose own variables go along."""
    with ExitStack() as pipes:
        needed = {name: value for name in ("DATABASE_URL", "SERVING_KEY") if (value := getattr(settings, name))}
        descriptors = {name: pipes.enter_context(_readable_once(value)) for name, value in needed.items()}
        files = {f"{name}_FILE": f"/dev/fd/{descriptor}" for name, descriptor in descriptors.items()}
        yield {**library_variables(trackers), **_own(), **files}, tuple(descriptors.values())


@contextmanager
def of_workers(folder: Path, needs_database: bool) -> Iterator[dict[str, str]]:
    """Variables of processes that a launcher starts, which closes what they would inherit. Where they need the
    database, they read its address from a file in ``folder`` that is removed at the end."""
    file = folder / "database"
    try:
        passed = {}
        if needs_database and settings.DATABASE_URL:
            write_text(file, settings.DATABASE_URL)
            passed["DATABASE_URL_FILE"] = str(file)
        yield {**library_variables(), **_own(), **passed}
    finally:
        file.unlink(missing_ok=True)


def library_variables(trackers: Iterable[str] = ()) -> dict[str, str]:
    named = plain_names() | {*settings.TRAINING_ENVIRONMENT}
    prefixes = tuple(f"{name.strip().upper()}_" for name in trackers if name.strip())
    return {
        name: value
        for name, value in os.environ.items()
        if name in named or _KNOWN.fullmatch(name) or (prefixes and name.startswith(prefixes))
    }


def _own() -> dict[str, str]:
    return {"ENV_FILE": os.devnull, "SECRET_KEY": secrets.token_urlsafe(50)}


@contextmanager
def _readable_once(text: str) -> Iterator[int]:
    """The reading end of a pipe that holds the text, which must be shorter than a pipe is (64 KiB on Linux)."""
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "w", encoding="utf-8") as pipe:
            pipe.write(text)
        yield reading
    finally:
        os.close(reading)
