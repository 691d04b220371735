"""Every architecture at four levels: what llama.cpp makes of the file beside what transformers makes of the model.

The table is printed at the end: run with ``-s``.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rl.base.records import silent
from rl.export.gguf.check import PROBE_TEXT
from rl.export.gguf.export import convert
from rl.export.llama_cpp.process import LogitsWanted, ask
from tests.export.llama_cpp.greedy import greedy_tokens
from tests.export.tiny_models import FAMILIES

pytestmark = [pytest.mark.learn, pytest.mark.slow]

LEVELS = ("f32", "f16", "q8_0", "q4_k_m")
PROMPT = "The compressor's fan isn't turning: show"
NEW_TOKENS = 16
TIE = 0.05
"""Random weights are often undecided: where the two best logits are closer than this, 16 bits may pick the other one."""
LOOKED_UP_ACTIVATION = ("gpt2", "gemma")
"""ggml takes their GELU from a table of half precision."""


@pytest.fixture(scope="module")
def table() -> Iterator[list[tuple[Any, ...]]]:
    rows: list[tuple[Any, ...]] = []
    yield rows
    sys.stdout.write(f"\n{'model':13} {'level':7} {'tokens':>9} {'greedy':>7} {'largest difference of a logit':>30}\n")
    for family, level, tokens, greedy, difference in rows:
        sys.stdout.write(f"{family:13} {level:7} {tokens:>9} {greedy:>7} {difference:>30.2g}\n")


@torch.inference_mode()
def greedy(model: Any, prompt: list[int]) -> list[int]:
    ids = torch.tensor([prompt])
    made: list[int] = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False
    )[0].tolist()
    return made[len(prompt) :]


@torch.inference_mode()
def logits(model: Any, tokens: list[int]) -> numpy.ndarray:
    found: numpy.ndarray = model(torch.tensor([tokens])).logits[0].numpy()
    return found


def decided(rows: numpy.ndarray) -> int:
    """How many of the first picks are no near ties. ``rows``: (picks, vocabulary)."""
    best = numpy.sort(rows, axis=1)
    return int(numpy.argmin([*(best[:, -1] - best[:, -2] > TIE), False]))


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "qwen2-untied"])
def test_a_file_behaves_like_the_model_it_was_made_from(
    family: str, tiny_model: Callable[[str], Path], tmp_path: Path, table: list[tuple[Any, ...]]
):
    model = AutoModelForCausalLM.from_pretrained(tiny_model(family)).eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny_model(family))
    probe = tokenizer(PROBE_TEXT, add_special_tokens=False)["input_ids"]
    prompt = tokenizer(PROMPT)["input_ids"]
    right, reference = greedy(model, prompt), logits(model, probe)
    sure = decided(logits(model, prompt + right[:-1])[len(prompt) - 1 :])
    for level in LEVELS:
        path, wanted = tmp_path / f"{level}.gguf", LogitsWanted(probe, 0, tmp_path / "logits")
        convert(tiny_model(family), path, level, "tiny", silent)
        answer = ask(path, texts=[PROBE_TEXT], logits=wanted)
        picked = greedy_tokens(path, prompt, NEW_TOKENS)
        equal = sum(ours == theirs for ours, theirs in zip(picked, right, strict=False))
        made = numpy.fromfile(wanted.file, numpy.float32).reshape(reference.shape)
        difference = float(numpy.abs(made - reference).max())
        row = (family, level, f"{len(probe)}/{len(probe)}", f"{equal}/{len(right)}", difference)
        table.append(row)
        assert answer.tokens[0] == probe
        if level in ("f32", "f16"):
            assert picked[:sure] == right[:sure]
        if level == "f32":
            room = 1e-3 if family.startswith(LOOKED_UP_ACTIVATION) else 2e-5
            assert difference < room * numpy.abs(reference).max()
