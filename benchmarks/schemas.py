"""What JSON schemas cost a llama.cpp server: processor seconds of a request, at the bounds of the gateway and beyond.

    .venv/bin/python benchmarks/schemas.py
    .venv/bin/python benchmarks/schemas.py --beyond

A model of one narrow layer with SmolLM2's vocabulary answers, so that next to nothing but the grammar is computed. Every
schema of the first list must pass the gateway as it is, none of the second may.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.settings")
os.environ.setdefault("DEBUG", "1")
os.environ.setdefault("SECRET_KEY", "only-for-benchmarks-" + "b" * 40)

TOKENS, PATIENCE = 16, 30.0
TEXT = {"type": "string"}


def an_object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties) if required is None else required}


def values(count: int) -> dict[str, Any]:
    return {"enum": [f"v{number}" for number in range(count)]}


def tagged(count: int) -> dict[str, Any]:
    return {"anyOf": [an_object({"kind": {"const": f"k{number}"}, "v": TEXT}) for number in range(count)]}


def pattern(middle: str) -> dict[str, Any]:
    """Nine figures behind it keep a model that knows nothing inside of it."""
    return {"type": "string", "pattern": f"^{middle}[0-9]{{9}}$"}


def forks(levels: int) -> dict[str, Any]:
    defs: dict[str, Any] = {"d0": {"type": "integer"}}
    for level in range(1, levels + 1):
        below = {"type": "array", "items": {"$ref": f"#/$defs/d{level - 1}"}, "minItems": 1}
        defs[f"d{level}"] = {"anyOf": [below, below]}
    return {"$defs": defs, "$ref": f"#/$defs/d{levels}"}


WITHIN = {
    "text": TEXT,
    "250 values": values(250),
    "7 x 250 values": an_object({f"e{number}": values(250) for number in range(7)}),
    "600 properties": an_object({f"p{number}": TEXT for number in range(600)}),
    "250 optional properties": an_object({f"p{number}": TEXT for number in range(250)}, []),
    "200 kinds of objects": tagged(200),
    "two ways at each of 7 levels": forks(7),
    "([a-z]|[a-z]) 10 times": pattern("([a-z]|[a-z])" * 10),
    "[a-z]* 5 times": pattern("[a-z]*" * 5),
    "59,000 letters": {"const": "c" * 59_000},
    "minItems 2000, 5 deep": {
        "type": "array",
        "minItems": 2000,
        "items": {"type": "array", "minItems": 2000, "items": TEXT},
    },
}
BEYOND = {
    "a? 3000 times": pattern("a?" * 3000),
    "[a-z]? 50 times": pattern("[a-z]?" * 50),
    "[a-z]* 20 times": pattern("[a-z]*" * 20),
    "([a-z]{0,40}){0,40}": pattern("([a-z]{0,40}){0,40}"),
    "(a|a|a|a){0,60}": pattern("([a-z]|[a-z]|[a-z]|[a-z]){0,60}"),
    "4000 values": values(4000),
    "2000 optional properties": an_object({f"p{number}": TEXT for number in range(2000)}, []),
    "two ways at each of 14 levels": forks(14),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beyond", action="store_true", help="what does not pass; each may take half a minute")
    beyond = parser.parse_args().beyond
    import django

    django.setup()
    with tempfile.TemporaryDirectory() as folder:
        model = build_model(Path(folder))
        server = Server(model, Path(folder))
        print("| schema | ms of the gateway | CPU seconds of llama.cpp | tokens |\n|---|---|---|---|")
        for name, schema in (BEYOND if beyond else WITHIN).items():
            milliseconds = check(schema, passes=not beyond)
            seconds, tokens = server.ask(schema)
            shown = name.replace("|", "\\|")
            print(f"| `{shown}` | {milliseconds:.1f} | {seconds:.2f} | {tokens} |", flush=True)
            if tokens == "-":
                server.end()
                server = Server(model, Path(folder))
        server.end()


def check(schema: dict[str, Any], passes: bool) -> float:
    """Milliseconds that the gateway takes to decide, as it must."""
    from rl.config.schemas import Schemas
    from rl.serving.gateway.refusals import Refusal

    began = time.perf_counter()
    try:
        passed = Schemas().check(schema, "schema") == schema
    except Refusal:
        passed = False
    if passed is not passes:
        sys.exit(f"the gateway {'passes' if passed else 'refuses'} what it should not")
    return (time.perf_counter() - began) * 1000


def build_model(folder: Path) -> Path:
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from rl.base.records import silent
    from rl.export.gguf.export import convert
    from rl.lm.base_models import resolve

    tokenizer = AutoTokenizer.from_pretrained(resolve("smollm2", silent))
    narrow = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(narrow).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    convert(folder / "model", folder / "narrow.gguf", "f16", "narrow", silent)
    return folder / "narrow.gguf"


class Server:
    def __init__(self, model: Path, folder: Path) -> None:
        import psutil

        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])
        request = {"path": str(model), "sha256": "", "name": "narrow", "key": "k", "port": self.port, "slots": 2}
        request |= {"context": 2048, "threads": 1, "gpu_layers": 0, "kv_cache_type": "f16"}
        command = [sys.executable, "-m", "rl.serving.llama_server_child", str(folder), "0"]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=ROOT)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode())
        self._process.stdin.close()
        self._times = psutil.Process(self._process.pid).cpu_times
        while self.ask(None)[1] == "-":
            time.sleep(0.2)

    def ask(self, schema: Any) -> tuple[float, str]:
        """Processor seconds, and the tokens that came; "-" where none came in time."""
        import httpx

        form = (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}
            if schema
            else {}
        )
        body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": TOKENS, "seed": 1, **form}
        before = sum(self._times()[:2])
        try:
            url = f"http://127.0.0.1:{self.port}/v1/chat/completions"
            answer = httpx.post(url, json=body, headers={"Authorization": "Bearer k"}, timeout=PATIENCE)
            tokens = str(answer.json()["usage"]["completion_tokens"])
        except (httpx.HTTPError, KeyError):
            tokens = "-"
        return sum(self._times()[:2]) - before, tokens

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


if __name__ == "__main__":
    main()
