from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rl.errors import ExportFailed
from rl.export.gguf_check import NEXT_TOKENS, self_check
from rl.export.gguf_convert import convert
from rl.records import silent
from tests.export.tiny_models import FAMILIES, build_model

Build = Callable[[str], Path]


def change_json(path: Path, change: Callable[[Any], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_right_file_agrees_everywhere(tiny_model: Build, tmp_path: Path):
    convert(tiny_model("llama"), tmp_path / "right.gguf", "f32", "tiny", silent)
    figures = self_check(tmp_path / "right.gguf", tiny_model("llama"), "f32")
    assert figures["next_tokens_equal"] == figures["next_tokens_checked"] == NEXT_TOKENS
    assert figures["tokenisation_equal"]
    assert figures["chat_template_equal"]
    assert figures["max_logprob_difference"] < 1e-4


def test_a_file_with_another_rope_base_is_found_out(tiny_model: Build, tmp_path: Path):
    model = shutil.copytree(tiny_model("llama"), tmp_path / "model")
    change_json(model / "config.json", lambda config: config["rope_parameters"].update(rope_theta=3.0))
    convert(model, tmp_path / "wrong.gguf", "f16", "tiny", silent)
    with pytest.raises(ExportFailed, match=r"does not behave like the model: .* in only \d+ of 16 places"):
        self_check(tmp_path / "wrong.gguf", tiny_model("llama"), "f16")


def test_a_file_that_splits_text_differently_is_found_out(tiny_model: Build, tmp_path: Path):
    model = shutil.copytree(tiny_model("qwen2-tied"), tmp_path / "model")
    change_json(model / "tokenizer.json", lambda parts: parts["model"]["merges"].reverse())
    convert(model, tmp_path / "wrong.gguf", "q4_k_m", "tiny", silent)
    with pytest.raises(ExportFailed, match=r"splits text differently .* in wrong.gguf: token \d+ is"):
        self_check(tmp_path / "wrong.gguf", tiny_model("qwen2-tied"), "q4_k_m")


def test_a_template_that_llama_cpp_renders_otherwise_is_told_but_fails_nothing(tiny_model: Build, tmp_path: Path):
    model = tmp_path / "model"
    config, tokenizer = FAMILIES["qwen2-tied"]()
    tokenizer.chat_template = "{{ messages[0].content | upper }}!"
    build_model(model, config, tokenizer)
    convert(model, tmp_path / "other.gguf", "f16", "tiny", silent)
    assert self_check(tmp_path / "other.gguf", model, "f16")["chat_template_equal"]
    assert not self_check(tmp_path / "other.gguf", tiny_model("qwen2-tied"), "f16")["chat_template_equal"]


def test_without_xllamacpp_the_check_says_that_it_did_not_run(
    tiny_model: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    assert "is not installed" in self_check(tmp_path / "any.gguf", tiny_model("gpt2"), "f16")["skipped"]
