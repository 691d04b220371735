import json
import shutil
import sys
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from rl.base.errors import ExportFailed
from rl.base.records import silent
from rl.base.template_settings import SWITCH
from rl.config.levels import SMALL_LEVELS
from rl.export.gguf import check as gguf_check
from rl.export.gguf import weights as gguf_weights
from rl.export.gguf.check import POSITIONS, self_check
from rl.export.gguf.export import convert
from rl.export.llama_cpp.process import ask
from tests.export.tiny_models import FAMILIES, build_model
from tests.training.chatting import tokenizer

pytestmark = pytest.mark.learn

Build = Callable[[str], Path]


def change_json(path: Path, change: Callable[[Any], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_right_file_agrees_everywhere(family: str, tiny_model: Build, tmp_path: Path):
    convert(tiny_model(family), tmp_path / "right.gguf", "f32", "tiny", silent)
    figures = self_check(tmp_path / "right.gguf", tiny_model(family), "f32")
    assert figures["chat_template"] == ("none" if family == "mistral" else "equal")
    assert (figures["positions"], figures["top1_agreement"]) == (POSITIONS, 1.0)
    assert figures["mean_kl"] < 1e-6
    has_gelu = family.startswith(("gpt2", "gemma"))  # which ggml looks up in a table of half precision
    assert figures["top3_max_difference"] < (5e-3 if has_gelu else 1e-4)
    assert figures["tokens_equal"] > 150


@pytest.mark.parametrize(
    ("template", "thinks", "tools"),
    [
        ("qwen3", False, "equal"),
        ("qwen3", True, "equal"),
        ("nemotron_3_nano", True, "equal"),
        ("llama3_1", False, "equal"),
        ("mistral_v3", False, "equal"),
        ("gemma3", False, "not checked: the chat template writes none"),
        ("gemma4_v2", False, "written otherwise by llama.cpp than in training: token"),
    ],
)
def test_a_chat_with_tools_is_compared_too(template: str, thinks: bool, tools: str, tmp_path: Path):
    model = copy(tokenizer(template))
    model.init_kwargs = {**model.init_kwargs, SWITCH: thinks}
    build_model(tmp_path / "model", FAMILIES["llama"]()[0], model)
    convert(tmp_path / "model", tmp_path / "file.gguf", "f32", "tiny", silent)
    figures = self_check(tmp_path / "file.gguf", tmp_path / "model", "f32")
    assert figures["chat_template"] == "equal"
    assert figures["tools"].startswith(tools)


@pytest.mark.parametrize("thinks", [False, True])
def test_a_file_is_asked_with_thoughts_as_its_model_was_trained(thinks: bool, tmp_path: Path):
    model = copy(tokenizer("qwen3"))
    model.init_kwargs = {**model.init_kwargs, SWITCH: thinks}
    build_model(tmp_path / "model", FAMILIES["llama"]()[0], model)
    convert(tmp_path / "model", tmp_path / "file.gguf", "f32", "tiny", silent)
    assert self_check(tmp_path / "file.gguf", tmp_path / "model", "f32")["chat_template"] == "equal"
    [shown] = ask(tmp_path / "file.gguf", chats=[gguf_check._request(model, gguf_check._CHAT)]).rendered
    assert str(shown).endswith("<think>\n\n</think>\n\n") is not thinks


@pytest.mark.parametrize("level", SMALL_LEVELS)
def test_a_smaller_level_passes_and_shows_what_it_lost(level: str, tiny_model: Build, tmp_path: Path):
    convert(tiny_model("qwen2-tied"), tmp_path / "small.gguf", level, "tiny", silent)
    assert self_check(tmp_path / "small.gguf", tiny_model("qwen2-tied"), level)["mean_kl"] > 0.01


@pytest.mark.parametrize("level", ["f16", "q8_0", "q4_k_m", "q2_k"])
def test_a_file_with_another_rope_base_is_found_out(level: str, tiny_model: Build, tmp_path: Path):
    model = shutil.copytree(tiny_model("llama"), tmp_path / "model")
    change_json(model / "config.json", lambda config: config["rope_parameters"].update(rope_theta=3.0))
    convert(model, tmp_path / "wrong.gguf", level, "tiny", silent)
    with pytest.raises(ExportFailed, match=rf"the {level} file does not behave like the model: .* first after '.*"):
        self_check(tmp_path / "wrong.gguf", tiny_model("llama"), level)


def test_weights_that_are_no_numbers_are_found_out(tiny_model: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gguf_weights, "require_finite", lambda values, name: None)
    model = shutil.copytree(tiny_model("llama"), tmp_path / "model")
    weights = load_file(model / "model.safetensors")
    weights["model.norm.weight"].fill_(float("nan"))
    save_file(weights, model / "model.safetensors", {"format": "pt"})
    convert(model, tmp_path / "wrong.gguf", "f16", "tiny", silent)
    with pytest.raises(ExportFailed, match="diverge by nan"):
        self_check(tmp_path / "wrong.gguf", tiny_model("llama"), "f16")


def test_a_file_that_splits_text_differently_is_found_out(tiny_model: Build, tmp_path: Path):
    model = shutil.copytree(tiny_model("qwen2-tied"), tmp_path / "model")
    change_json(model / "tokenizer.json", lambda parts: parts["model"]["merges"].reverse())
    convert(model, tmp_path / "wrong.gguf", "q4_k_m", "tiny", silent)
    with pytest.raises(ExportFailed, match=r"splits text differently .* in wrong.gguf: token \d+ is \d+ '.*' instead"):
        self_check(tmp_path / "wrong.gguf", tiny_model("qwen2-tied"), "q4_k_m")


@pytest.fixture
def own_template(tmp_path: Path) -> Callable[[str], Path]:
    """A model with that chat template."""

    def build(template: str) -> Path:
        config, tokenizer = FAMILIES["llama"]()
        tokenizer.chat_template = template
        return build_model(tmp_path / "model", config, tokenizer)

    return build


def test_a_chat_that_llama_cpp_turns_into_other_tokens_fails_the_export(
    own_template: Callable[[str], Path], tiny_model: Build, tmp_path: Path
):
    convert(own_template("{{ bos_token }}{{ messages[0].content | upper }}!"), tmp_path / "o.gguf", "f16", "x", silent)
    with pytest.raises(
        ExportFailed, match=r"turn a chat into the tokens .*: token 1 is \d+ 'W' instead of \d+ '<|im_st"
    ):
        self_check(tmp_path / "o.gguf", tiny_model("llama"), "f16")


@pytest.mark.parametrize("begin", ["", "{{ bos_token }}", "{{ bos_token }}{{ bos_token }}", "hello {{ bos_token }}"])
def test_a_template_has_its_bos_as_often_as_it_writes_it(
    begin: str, own_template: Callable[[str], Path], tmp_path: Path
):
    model = own_template(begin + "{{ messages[0].content }}")
    convert(model, tmp_path / "own.gguf", "f16", "x", silent)
    try:
        assert self_check(tmp_path / "own.gguf", model, "f16")["chat_template"] == "equal"
    except ExportFailed as error:
        assert begin.count("bos_token") == 2
        assert "token 1 is" in str(error)  # noqa: PT017


def test_a_bos_that_the_file_adds_and_the_template_does_not_write_is_found_out(
    own_template: Callable[[str], Path], tiny_model: Build, tmp_path: Path
):
    model = own_template("{{ messages[0].content }}")
    convert(tiny_model("llama"), tmp_path / "with.gguf", "f16", "x", silent)
    with pytest.raises(ExportFailed, match=r"turn a chat into the tokens that the model was trained on .*: token 0 is"):
        self_check(tmp_path / "with.gguf", model, "f16")


def test_a_template_that_llama_cpp_cannot_render_fails_the_export(
    own_template: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model = own_template("{{ raise_exception('no') if 'pump' in messages[0].content else messages[0].content }}")
    monkeypatch.setattr(gguf_check, "render_chat", lambda tokenizer, chat: chat[0]["content"])
    convert(model, tmp_path / "own.gguf", "f16", "x", silent)
    with pytest.raises(ExportFailed, match="llama.cpp cannot render the model's chat template in own.gguf"):
        self_check(tmp_path / "own.gguf", model, "f16")


def test_without_xllamacpp_the_check_says_that_it_did_not_run(
    tiny_model: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    assert "is not installed" in self_check(tmp_path / "any.gguf", tiny_model("gpt2"), "f16")["skipped"]


def test_a_model_that_does_not_fit_into_memory_is_read_layer_by_layer(
    tiny_model: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    convert(tiny_model("qwen2-tied"), tmp_path / "right.gguf", "f16", "tiny", silent)
    whole = self_check(tmp_path / "right.gguf", tiny_model("qwen2-tied"), "f16")
    monkeypatch.setattr(gguf_check, "RESIDENT", 1 << 21)
    assert self_check(tmp_path / "right.gguf", tiny_model("qwen2-tied"), "f16") == whole
