from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGUFReader
from peft import PeftModel
from transformers import AutoModelForCausalLM

from rl.errors import ExportFailed, UsageError
from rl.export import lora
from rl.export.gguf_convert import convert
from rl.export.llama_process import greedy_tokens
from rl.export.records import ExportJob
from rl.records import silent
from tests.export.tiny_models import build_adapter

Build = Callable[[str], Path]
PROMPT = [5, 60, 71, 300, 42]
NEW_TOKENS = 12


def export(base: Path, adapter: Path | None, output: Path) -> Path:
    job = ExportJob(base_model=str(base), adapter_dir=adapter, output_dir=output, name="tiny")
    return lora.export(job, silent).path


def continuation(model: Any) -> list[int]:
    ids = torch.tensor([PROMPT])
    made = model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False
    )
    return made[0, len(PROMPT) :].tolist()


PATTERNS = {
    "gpt2": {"alpha_pattern": {"c_proj": 32}, "rank_pattern": {"c_attn": 2}},
    "llama": {"alpha_pattern": {"o_proj": 32}, "rank_pattern": {"q_proj": 2}},
}


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("qwen2-tied", {}),
        ("qwen3", {"use_rslora": True}),
        ("mistral", {"target_modules": ["q_proj", "v_proj"]}),
        ("llama", {"use_rslora": True, **PATTERNS["llama"]}),
        ("gpt2", PATTERNS["gpt2"]),
    ],
)
def test_llama_cpp_applies_the_adapter_as_peft_does(
    family: str, options: dict[str, Any], tiny_model: Build, tmp_path: Path
):
    base = tiny_model(family)
    adapter = build_adapter(tmp_path / "adapter", base, **options)
    exported = export(base, adapter, tmp_path) / "tiny-lora-f16.gguf"
    convert(base, tmp_path / "base.gguf", "f32", "base", silent)
    plain = AutoModelForCausalLM.from_pretrained(base)
    without = continuation(plain)
    expected = continuation(PeftModel.from_pretrained(plain, str(adapter)))
    assert greedy_tokens(tmp_path / "base.gguf", PROMPT, NEW_TOKENS, exported) == expected != without


def test_the_peft_adapter_is_clean_and_loads(tiny_model: Build, tiny_adapter: Build, tmp_path: Path):
    base = tiny_model("llama")
    source = tmp_path / "adapter"
    build_adapter(source, base)
    for left_over in ("training_args.bin", "optimizer.pt", "ref/adapter_model.safetensors"):
        (source / left_over).parent.mkdir(exist_ok=True)
        (source / left_over).write_bytes(b"x")
    exported = export(base, source, tmp_path)
    assert sorted(path.name for path in exported.iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "tiny-lora-f16.gguf",
    ]
    assert json.loads((exported / "adapter_config.json").read_text())["base_model_name_or_path"] == str(base)
    expected = continuation(PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), str(source)))
    assert (
        continuation(PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), str(exported))) == expected
    )


def test_the_gguf_adapter_holds_two_f16_tensors_for_each_layer(tiny_model: Build, tiny_adapter: Build, tmp_path: Path):
    exported = export(tiny_model("qwen2-tied"), tiny_adapter("qwen2-tied"), tmp_path)
    reader = GGUFReader(exported / "tiny-lora-f16.gguf")
    assert Counter(tensor.tensor_type.name for tensor in reader.tensors) == {"F16": 2 * 7 * 2}
    assert reader.fields["adapter.lora.alpha"].contents() == 8.0
    assert reader.fields["general.type"].contents() == "adapter"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"use_dora": True}, "use_dora is True"),
        ({"bias": "lora_only"}, "bias is 'lora_only'"),
        ({"modules_to_save": ["lm_head"], "target_modules": ["q_proj"]}, r"modules_to_save is \['lm_head'\]"),
        ({"target_modules": ["q_proj", "embed_tokens"]}, "it trains .*lora_embedding"),
    ],
)
def test_what_a_gguf_adapter_cannot_hold_is_refused_with_the_way_out(
    options: dict[str, Any], reason: str, tiny_model: Build, tmp_path: Path
):
    adapter = build_adapter(tmp_path / "adapter", tiny_model("qwen2-untied"), **options)
    with pytest.raises(ExportFailed, match=rf"because {reason}.*: export merged or gguf instead"):
        export(tiny_model("qwen2-untied"), adapter, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_an_adapter_on_a_shared_output_layer_is_refused(tiny_model: Build, tmp_path: Path):
    adapter = build_adapter(tmp_path / "adapter", tiny_model("qwen2-tied"), target_modules=["q_proj", "lm_head"])
    with pytest.raises(ExportFailed, match="lm_head, which this base model shares with its embeddings"):
        export(tiny_model("qwen2-tied"), adapter, tmp_path)


def test_an_adapter_of_another_base_is_refused(tiny_model: Build, tiny_adapter: Build, tmp_path: Path):
    with pytest.raises(ExportFailed, match=r"was not trained on .*: base_model.*_proj.* does not fit it"):
        export(tiny_model("qwen3"), tiny_adapter("llama"), tmp_path)


def test_without_an_adapter_there_is_nothing_to_export(tiny_model: Build, tmp_path: Path):
    with pytest.raises(
        UsageError, match="there is no adapter to export, but a whole model: export it as merged or gguf"
    ):
        export(tiny_model("llama"), None, tmp_path)


@pytest.mark.parametrize(("content", "what"), [("{", "cannot read"), ("[]", "is not a JSON object")])
def test_a_damaged_adapter_config_is_told_in_one_line(content: str, what: str, tiny_model: Build, tmp_path: Path):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(content)
    (adapter / "adapter_model.safetensors").write_bytes(b"")
    with pytest.raises(ExportFailed, match=what):
        export(tiny_model("llama"), adapter, tmp_path)


def test_damaged_adapter_weights_are_told_in_one_line(tiny_model: Build, tiny_adapter: Build, tmp_path: Path):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_bytes((tiny_adapter("llama") / "adapter_config.json").read_bytes())
    (adapter / "adapter_model.safetensors").write_bytes(b"\x00" * 64)
    with pytest.raises(ExportFailed, match=r"cannot read .*adapter_model.safetensors"):
        export(tiny_model("llama"), adapter, tmp_path)
