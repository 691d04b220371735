"""The child process in which llama.cpp runs: one JSON request on standard input, one JSON answer on standard output.

A malformed file can kill the process that loads it, so nothing else lives here. Request: ``model`` and ``adapter`` (paths,
the latter may be null), ``texts`` to tokenise, ``chat`` messages to render (may be empty), ``prompts`` (text or token
ids) to continue greedily by ``new_tokens`` each, ``context`` in tokens. Run it as ``python -m rl.export.llama_child``.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import urllib.error
import urllib.request
from typing import Any

import xllamacpp

_THREADS = 1
"""llama.cpp's threads spin while they wait; beside a busy trainer more of them are slower, not faster."""

_ANSWER_SECONDS = 600
"""For one prompt; large models on slow processors take minutes."""


def main() -> None:
    """llama.cpp may print to standard output, which belongs to the answer: it is pointed at standard error meanwhile."""
    answer_to = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    with answer_to:
        json.dump(_answer(request), answer_to)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    key = secrets.token_hex(16)
    server = xllamacpp.Server(_parameters(request, key))
    texts = [_post(server, key, "/tokenize", _as_written(text))["tokens"] for text in request["texts"]]
    rendered = _render(server, key, request["chat"]) if request["chat"] else None
    continuations = [_continue(server, key, prompt, request["new_tokens"]) for prompt in request["prompts"]]
    return {"tokens": texts, "rendered": rendered, "continuations": continuations}


def _parameters(request: dict[str, Any], key: str) -> Any:
    """Exact arithmetic where there is a choice, so that what differs from transformers is the file."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = request["model"]
    if request["adapter"]:
        parameters.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(request["adapter"], 1.0)]
    parameters.n_ctx = request["context"]
    parameters.n_parallel = 1
    parameters.n_gpu_layers = 0
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = _THREADS
    parameters.cache_type_k = parameters.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    parameters.warmup = parameters.fit_params = parameters.ui = False
    parameters.use_jinja = True
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [key]
    return parameters


def _as_written(text: str) -> dict[str, Any]:
    return {"content": text, "add_special": False, "parse_special": True}


def _post(server: Any, key: str, path: str, body: dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    request = urllib.request.Request(server.listening_address + path, json.dumps(body).encode(), headers)  # noqa: S310
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=_ANSWER_SECONDS) as response:
        return json.load(response)


def _render(server: Any, key: str, messages: list[dict[str, str]]) -> str | None:
    """None when llama.cpp's template engine refuses the template; a person is told by the difference to the original."""
    try:
        return str(_post(server, key, "/apply-template", {"messages": messages})["prompt"])
    except urllib.error.HTTPError:
        return None


def _continue(server: Any, key: str, prompt: str | list[int], new_tokens: int) -> list[dict[str, Any]]:
    """Each new token's id and natural-log probability; the last may be the end of the text.

    The probability is null for the bytes of an unfinished character, of which llama.cpp tells only the id.
    """
    body = {"prompt": prompt, "n_predict": new_tokens, "temperature": 0, "n_probs": 1, "return_tokens": True}
    answer = _post(server, key, "/completion", body)
    known = [(entry["id"], entry["logprob"]) for entry in answer.get("completion_probabilities", [])]
    line = []
    for token in answer["tokens"]:
        is_known = bool(known) and known[0][0] == token
        line.append({"id": token, "logprob": known.pop(0)[1] if is_known else None})
    return line


if __name__ == "__main__":
    main()
