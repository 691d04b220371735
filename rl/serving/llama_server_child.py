"""The process that serves one GGUF file by llama.cpp, with OpenAI's API, until it is told to end by SIGTERM.

Run it as ``python -m rl.serving.llama_server_child FOLDER NUMBER``; the two only tell ``ps`` whose it is: DATA_DIR's folder
of servers, and the deployment. One JSON object comes on standard input: ``path``, ``sha256``, ``name``, ``key``, ``port``,
``slots``, ``context`` (tokens of a slot), ``threads``, ``gpu_layers`` (-1: as fit), ``kv_cache_type``, ``adapters`` (paths;
a request says by its ``lora`` which one it wants). Its log is standard error, an open file that only grows and is cut here.
A malformed file may kill the process, so nothing else lives here."""

import hashlib
import json
import os
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any

from rl.base.priority import give_way

LOG_BYTES = 4 << 20
"""Size of the log beyond which its older part is dropped."""
_LOOK_SECONDS = 60
_END_SECONDS = 5
"""Time for answers that are being written when the server is told to end."""
_NICENESS = 10
"""The site on the same machine goes first: a page is some milliseconds of work, an answer is seconds."""
_PROMPT_CACHE_MIB = 256
"""Memory for prompts that were computed; llama.cpp's own default is 8 GiB. None where there are adapters:
what it keeps there does not say under which of them it was computed, and is taken for another's."""


def main() -> None:
    give_way(_NICENESS)
    request = json.load(sys.stdin)
    path, sha256 = request["path"], request["sha256"]
    with Path(path).open("rb") as file:
        if sha256 and hashlib.file_digest(file, "sha256").hexdigest() != sha256:
            sys.exit(f"{path} is not the file that was exported any more (its SHA-256 differs); export it again")
    import xllamacpp  # after the check: it takes a second

    server = xllamacpp.Server(_parameters(xllamacpp, request))
    signal.signal(signal.SIGTERM, _end)
    while server is not None:
        _cut_log()
        time.sleep(_LOOK_SECONDS)


def _parameters(library: Any, request: dict[str, Any]) -> Any:
    parameters = library.CommonParams()
    parameters.model.path = request["path"]
    parameters.model_alias = {request["name"]}
    parameters.n_parallel = request["slots"]
    parameters.n_ctx = request["slots"] * request["context"]
    parameters.n_gpu_layers = request["gpu_layers"]
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = request["threads"]
    cache = getattr(library.ggml_type, f"GGML_TYPE_{request['kv_cache_type'].upper()}")
    parameters.cache_type_k = parameters.cache_type_v = cache
    parameters.cache_ram_mib = 0 if request["adapters"] else _PROMPT_CACHE_MIB
    parameters.use_jinja = True
    parameters.fit_params = request["gpu_layers"] < 0
    parameters.ui = parameters.endpoint_slots = False
    parameters.endpoint_metrics = True
    parameters.n_batch = parameters.n_ubatch  # between two of them it answers others
    parameters.lora_adapters = [library.CommonAdapterLoraInfo(path, 0.0) for path in request["adapters"]]
    parameters.lora_init_without_apply = True
    parameters.offline = True
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = request["port"]
    parameters.api_keys = [request["key"]]
    return parameters


def _end(*_: object) -> None:
    """Before the model is loaded SIGTERM ends the process at once; afterwards so does SIGALRM, if need be."""
    signal.alarm(_END_SECONDS)
    sys.exit(0)


def _cut_log() -> None:
    """Keeps the newer half. llama.cpp and this process append, so what comes next follows it."""
    state = os.fstat(2)
    if not stat.S_ISREG(state.st_mode) or state.st_size <= LOG_BYTES:
        return
    with Path("/dev/fd/2").open("rb") as log:
        log.seek(-LOG_BYTES // 2, os.SEEK_END)
        newer = log.read().partition(b"\n")[2]
    os.ftruncate(2, 0)
    os.write(2, newer)


if __name__ == "__main__":
    main()
