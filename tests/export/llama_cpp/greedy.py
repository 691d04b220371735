"""The likeliest tokens, one after the other, as llama.cpp computes them in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import gguf

from rl.export.llama_cpp.process import ask

ROOT = Path(__file__).resolve().parents[3]


def greedy_tokens(file: Path, prompt: str | Sequence[int], n: int, adapter: Path | None = None) -> list[int]:
    """Up to ``n`` ids that come after ``prompt``, a text getting the BOS that the file asks for; fewer where the text ends,
    the id of its end being the last."""
    ids = ask(file, chats=[prompt]).chat_tokens[0] if isinstance(prompt, str) else list(prompt)
    [end] = gguf.GGUFReader(file).fields["tokenizer.ggml.eos_token_id"].parts[-1].tolist()
    asked = {"file": str(file), "adapter": adapter and str(adapter), "ids": ids, "end": end, "n": n}
    command = [sys.executable, "-m", "tests.export.llama_cpp.greedy"]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=True, cwd=ROOT)
    tokens: list[int] = json.loads(done.stdout.splitlines()[-1])
    return tokens


def _answer(file: str, adapter: str | None, ids: list[int], end: int, n: int) -> list[int]:
    from rl.export.llama_cpp.api import LogitReader

    reader, start = LogitReader(file, adapter, len(ids) + n, 1), len(ids)
    while len(ids) < start + n and end not in ids[start:]:
        ids.append(int(reader.logits(ids, len(ids) - 1)[0].argmax()))
    return ids[start:]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_answer(**json.load(sys.stdin))))
