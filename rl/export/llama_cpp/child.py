"""The child process in which llama.cpp runs: one JSON request on standard input, lines of JSON on standard output.

A malformed file can kill the process that loads it, so nothing else lives here. Request: ``model`` and ``adapter`` (paths,
the latter may be null), ``context`` in tokens, and either ``scored``, pairs of token ids of prompt and answer, of which each
gets a line with its log-probability; or questions, which share one line: ``texts`` to tokenise, ``chats`` to render and
tokenise (each a request, or plain text for a model without a template), and ``logits`` (null, or ``tokens``, the number of
the ``first`` to tell about, and the ``file`` to write float32 rows to). Run it as ``python -m rl.export.llama_cpp.child``.
"""

import json
import os
import resource
import secrets
import sys
import traceback
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import xllamacpp

from rl.export.llama_cpp.api import LogitReader, log_prob

_THREADS = 1
"""llama.cpp's threads spin while they wait; beside a busy trainer more of them are slower, not faster."""

_ANSWER_SECONDS = 600
"""For one prompt; large models on slow processors take minutes."""

_ROOM_BYTES = 16 << 30
_ROOM_TIMES = 4
"""Address space beyond the file, and as a multiple of it: a file that asks for more than that is refused, not obeyed."""

_servers: list[Any] = []
"""Never freed: llama.cpp ends a server's loop by a mark that a loop which only begins clears, and then waits for ever."""


def main() -> int:
    """llama.cpp may print to standard output, which belongs to the answer: it is pointed at standard error meanwhile."""
    answer_to = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    # no core dumps of models, no debugger to trace a crash, and no more memory than a sound file can need
    os.environ["GGML_NO_BACKTRACE"] = "1"
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        room = _ROOM_BYTES + _ROOM_TIMES * Path(request["model"]).stat().st_size
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
    with answer_to:
        try:
            for line in _lines(request):
                answer_to.write(json.dumps(line) + "\n")
                answer_to.flush()
        except (RuntimeError, MemoryError, urllib.error.HTTPError) as error:
            sys.stderr.write(f"{_describe_error(error)}\n")
            return 1
    return 0


def _describe_error(error: Exception) -> str:
    """The server says in the body what it did not like."""
    if not isinstance(error, urllib.error.HTTPError):
        return str(error) or type(error).__name__
    try:
        return str(json.load(error)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return str(error)


def _lines(request: dict[str, Any]) -> Iterator[Any]:
    if "scored" not in request:
        yield _answer(request)
        return
    reader = _reader(request)
    for prompt, answer in request["scored"]:
        yield log_prob(reader, prompt, answer)


def _reader(request: dict[str, Any]) -> LogitReader:
    return LogitReader(request["model"], request["adapter"], request["context"], _THREADS)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    key = secrets.token_hex(16)
    server = xllamacpp.Server(_parameters(request, key))
    _servers.append(server)
    texts = [_tokens(server, key, text, as_prompt=False) for text in request["texts"]]
    rendered = [_render(server, key, chat) for chat in request["chats"]]
    chat_tokens = [[] if text is None else _tokens(server, key, text, as_prompt=True) for text in rendered]
    vocabulary = 0  # the width of the rows
    if logits := request["logits"]:
        reader = _reader(request)
        reader.logits(logits["tokens"], logits["first"]).tofile(logits["file"])
        vocabulary = reader.vocabulary
    return {"tokens": texts, "rendered": rendered, "chat_tokens": chat_tokens, "vocabulary": vocabulary}


def _parameters(request: dict[str, Any], key: str) -> Any:
    """Exact arithmetic where there is a choice, so that what differs from transformers is the file."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = request["model"]
    if request["adapter"]:
        parameters.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(request["adapter"], 1.0)]
    parameters.n_ctx = request["context"]
    parameters.n_parallel = 1
    parameters.n_gpu_layers = 0
    parameters.no_extra_bufts = True
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = _THREADS
    parameters.cache_type_k = parameters.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    parameters.warmup = parameters.fit_params = parameters.ui = False
    parameters.use_jinja = True
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [key]
    return parameters


def _tokens(server: Any, key: str, text: str, *, as_prompt: bool) -> list[int]:
    """``as_prompt``: with the BOS that the file asks for, as when it is served."""
    body = {"content": text, "add_special": as_prompt, "parse_special": True}
    tokens: list[int] = _post(server, key, "/tokenize", body)["tokens"]
    return tokens


def _post(server: Any, key: str, path: str, body: dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    request = urllib.request.Request(server.listening_address + path, json.dumps(body).encode(), headers)  # noqa: S310
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=_ANSWER_SECONDS) as response:
        return json.load(response)


def _render(server: Any, key: str, chat: dict[str, Any] | str) -> str | None:
    """None when llama.cpp's template engine refuses the template."""
    if isinstance(chat, str):
        return chat
    try:
        return str(_post(server, key, "/apply-template", chat)["prompt"])
    except urllib.error.HTTPError as error:
        sys.stderr.write(f"{_describe_error(error)}\n")
        return None


def _run() -> NoReturn:
    """Ends at once, whatever happened, without freeing ``_servers``."""
    status = 1
    try:
        status = main()
    except BaseException:  # noqa: BLE001  printed as the interpreter would, which would then free them
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _run()
