import hashlib
import os
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rl.base.records import silent
from rl.demo import demo_answers
from rl.demo.support import length
from rl.lm import tiny_model
from tests.forkserver import SERVER

pytestmark = pytest.mark.learn


def build_otherwise(target: Path, hash_file: Path) -> None:
    """In a process with other hashes of strings than this one's and more threads."""
    os.environ["RAYON_NUM_THREADS"] = "2"
    torch.set_num_threads(2)
    hash_file.write_text(str(hash("words")))
    tiny_model.build(target, silent)


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_every_process_builds_the_same_bits(tiny_base: Path, tmp_path: Path):
    process = SERVER.Process(target=build_otherwise, args=(tmp_path / "tiny", tmp_path / "hash"))
    process.start()
    process.join(1800)
    assert digests(tmp_path / "tiny") == digests(tiny_base)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hash", "tiny"]
    if "PYTHONHASHSEED" not in os.environ:
        assert int((tmp_path / "hash").read_text()) != hash("words")


def test_it_loads_like_any_model_and_fits_every_quantisation(tiny_base: Path):
    model = AutoModelForCausalLM.from_pretrained(tiny_base)
    assert model.config.model_type == "qwen2"
    assert model.config.hidden_size % 256 == 0
    assert model.config.intermediate_size % 256 == 0
    assert model.num_parameters() < 3_000_000


def test_its_tokenizer_gives_text_back(tiny_base: Path):
    tokenizer = AutoTokenizer.from_pretrained(tiny_base)
    text = "Open Settings, press OK.\n  42 × Zürich 東京 🙂"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_words_of_the_demo_are_single_tokens(tiny_base: Path):
    tokenizer = AutoTokenizer.from_pretrained(tiny_base)
    texts = [answer for question in demo_answers() for answer in question.answers]
    assert sum(len(tokenizer(text)["input_ids"]) == length(text) for text in texts) > 0.9 * len(texts)


def test_its_chat_template_writes_turns(tiny_base: Path):
    tokenizer = AutoTokenizer.from_pretrained(tiny_base)
    chat = [{"role": "system", "content": "Help."}, {"role": "user", "content": "Hi"}]
    assert tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) == (
        "<|im_start|>system\nHelp.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
