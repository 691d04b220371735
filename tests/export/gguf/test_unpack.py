import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from rl.base.errors import BadFile, UsageError
from rl.base.records import silent
from rl.export.gguf import unpack as unpacking
from rl.export.gguf.check import self_check
from rl.export.gguf.export import convert
from rl.export.gguf.unpack import unpack
from rl.export.llama_cpp.process import ask
from tests.export.tiny_models import FAMILIES

pytestmark = pytest.mark.learn

Build = Callable[[str], Path]


def gguf_file(model: Path, folder: Path, level: str = "f32") -> Path:
    convert(model, folder / "model.gguf", level, "a model", silent)
    return folder / "model.gguf"


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_exported_comes_back_as_the_model_that_llama_cpp_runs(family: str, tiny_model: Build, tmp_path: Path):
    file = gguf_file(tiny_model(family), tmp_path)
    figures = self_check(file, unpack(file, tmp_path / "unpacked", silent), "q8_0")  # whose limits suit 16 bits as well
    assert figures["mean_kl"] < 2e-3


def test_the_rule_by_which_text_is_split_comes_back(tiny_model: Build, tmp_path: Path):
    source = tiny_model("qwen2-tied")
    folder = unpack(gguf_file(source, tmp_path), tmp_path / "unpacked", silent)
    text = "In 2026 it's 1,024 µm — naïve?  \n\n Yes\t!!"
    before, after = AutoTokenizer.from_pretrained(source), AutoTokenizer.from_pretrained(folder)
    assert after(text)["input_ids"] == before(text)["input_ids"]
    assert after.chat_template == before.chat_template


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2"])
def test_texts_that_begin_with_blanks_are_split_as_llama_cpp_splits_them(
    family: str, tiny_model: Build, tmp_path: Path
):
    file = gguf_file(tiny_model(family), tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(unpack(file, tmp_path / "unpacked", silent))
    texts = [
        "a",
        " a",
        "  a",
        "   a",
        " \n a",
        "\n a",
        "\ta",
        "a  b",
        " ",
        "  ",
        "",
        " 東京",
        "\u00a0a",
        " 1",
        " <s> x",
    ]
    assert tokenizer(texts, add_special_tokens=False)["input_ids"] == ask(file, texts=texts).tokens


def test_a_file_that_is_not_gguf_is_refused_and_leaves_nothing(tmp_path: Path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + os.urandom(50))
    with pytest.raises(BadFile, match=r"model\.gguf: is not a whole GGUF file"):
        unpack(tmp_path / "model.gguf", tmp_path / "models" / "unpacked", silent)
    assert not (tmp_path / "models").exists()


def test_a_file_that_ends_too_early_is_refused(tiny_model: Build, tmp_path: Path):
    file = gguf_file(tiny_model("qwen2-tied"), tmp_path)
    with file.open("rb+") as handle:
        handle.truncate(file.stat().st_size // 2)
    with pytest.raises(BadFile, match=r"model\.gguf"):
        unpack(file, tmp_path / "unpacked", silent)
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]


def replace_text(file: Path, before: str, after: str) -> Path:
    """Of a string in the file's header, with its length before it."""
    old, new = (struct.pack("<Q", len(text)) + text.encode() for text in (before, after))
    file.write_bytes(file.read_bytes().replace(old, new, 1))
    return file


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("qwen2", "mamba", r"unknown architecture of model\.gguf 'mamba'.*; known: "),
        ("smollm", "viking", r"unknown tokenizer\.ggml\.pre of model\.gguf 'viking'"),
    ],
)
def test_an_architecture_or_a_tokenizer_that_is_unknown_is_refused(
    before: str, after: str, words: str, tiny_model: Build, tmp_path: Path
):
    family = "qwen2-tied" if before == "qwen2" else "qwen3"
    file = replace_text(gguf_file(tiny_model(family), tmp_path), before, after)
    with pytest.raises(UsageError, match=words):
        unpack(file, tmp_path / "unpacked", silent)


def test_too_little_room_is_told_before_anything_is_written(
    tiny_model: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(unpacking, "shortage", lambda folder, least: f"no room for {least} bytes")
    file = gguf_file(tiny_model("qwen2-tied"), tmp_path)
    with pytest.raises(UsageError, match="the model does not fit: no room for"):
        unpack(file, tmp_path / "unpacked", silent)
    assert not (tmp_path / "unpacked").exists()
