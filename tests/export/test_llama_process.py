from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rl.errors import ExportFailed
from rl.export.gguf_convert import convert
from rl.export.llama_process import ask, greedy_tokens
from rl.records import silent


@pytest.fixture(scope="module")
def gguf_file(tiny_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "llama.gguf"
    convert(tiny_model("llama"), path, "f16", "tiny", silent)
    return path


def test_text_and_token_ids_are_both_prompts_and_text_gains_its_bos(gguf_file: Path):
    ids = ask(gguf_file, texts=["<|begin|>pump 7"]).tokens[0]
    assert greedy_tokens(gguf_file, "pump 7", 6) == greedy_tokens(gguf_file, ids, 6)


def test_a_chat_is_rendered_by_the_template_in_the_file(gguf_file: Path):
    rendered = ask(gguf_file, chat=[{"role": "user", "content": "hello"}]).rendered
    assert rendered == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize("keep", [0, 100, 3000, 40_000])
def test_a_truncated_file_fails_with_one_line(keep: int, gguf_file: Path, tmp_path: Path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(gguf_file.read_bytes()[:keep])
    with pytest.raises(ExportFailed, match=r"llama.cpp (cannot use|crashed on) broken.gguf") as caught:
        greedy_tokens(broken, [1, 2, 3], 1)
    assert "\n" not in str(caught.value)


def test_a_prompt_that_cannot_be_run_fails_with_its_reason(gguf_file: Path):
    with pytest.raises(ExportFailed, match="cannot use llama.gguf"):
        greedy_tokens(gguf_file, [10**6], 1)


def test_a_missing_package_is_told(gguf_file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ExportFailed, match="install it with: pip install xllamacpp"):
        greedy_tokens(gguf_file, [1], 1)


def test_a_missing_file_is_told(tmp_path: Path):
    with pytest.raises(ExportFailed, match=r"there is no file .*/nothing.gguf"):
        greedy_tokens(tmp_path / "nothing.gguf", [1], 1)


def test_the_reason_that_llama_cpp_gives_is_passed_on_without_its_time_and_place(gguf_file: Path, tmp_path: Path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(gguf_file.read_bytes()[:-1000])
    with pytest.raises(
        ExportFailed, match="cannot use broken.gguf: error loading model: .* not within the file bounds"
    ):
        greedy_tokens(broken, [1], 1)
