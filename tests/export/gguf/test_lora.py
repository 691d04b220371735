import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGUFReader
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from rl.base.errors import ExportFailed, UsageError
from rl.base.export_records import ExportJob, ExportResult
from rl.base.records import silent
from rl.export.gguf import lora as gguf_lora
from rl.export.gguf.export import convert
from rl.export.hf.adapter import Adapter
from tests.export.llama_cpp.greedy import greedy_tokens
from tests.export.tiny_models import build_adapter

pytestmark = pytest.mark.learn

Build = Callable[[str], Path]
PROMPT = [5, 60, 71, 300, 42]
NEW_TOKENS = 12


def export(base: Path, adapter: Path | None, output: Path) -> ExportResult:
    return gguf_lora.export(ExportJob(str(base), adapter, output, name="tiny"), silent)


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
        ("gemma2", {}),
    ],
)
def test_llama_cpp_applies_the_adapter_as_peft_does(
    family: str, options: dict[str, Any], tiny_model: Build, tmp_path: Path
):
    base = tiny_model(family)
    adapter = build_adapter(tmp_path / "adapter", base, **options)
    result = export(base, adapter, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out" / "gguf").iterdir()] == ["tiny-lora-f16.gguf"]
    figures = result.details["self_check"]
    assert figures["mean_kl"] < 1e-3 < 0.1 < figures["adapter_kl"]
    convert(base, tmp_path / "base.gguf", "f32", "base", silent)
    plain = AutoModelForCausalLM.from_pretrained(base)
    without = continuation(plain)
    expected = continuation(PeftModel.from_pretrained(plain, str(adapter)))
    assert greedy_tokens(tmp_path / "base.gguf", PROMPT, NEW_TOKENS, result.path) == expected != without


def test_the_file_holds_two_f16_tensors_for_each_layer(
    tiny_model: Build, tiny_adapter: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    result = export(tiny_model("qwen2-tied"), tiny_adapter("qwen2-tied"), tmp_path)
    reader = GGUFReader(result.path)
    assert (result.path, result.quantization) == (tmp_path / "gguf" / "tiny-lora-f16.gguf", "f16")
    assert Counter(tensor.tensor_type.name for tensor in reader.tensors) == {"F16": 2 * 7 * 2}
    assert result.details["tensor_types"] == {"F16": 2 * 7 * 2}
    assert reader.fields["adapter.lora.alpha"].contents() == 8.0
    assert reader.fields["general.type"].contents() == "adapter"
    assert "is not installed" in result.details["self_check"]["skipped"]


@pytest.mark.parametrize("factor", [0.0, 3.0])
def test_a_file_with_another_scale_is_found_out(
    factor: float, tiny_model: Build, tiny_adapter: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    honest = Adapter._find_updates

    def scaled(self: Adapter, *arguments: Any) -> None:
        honest(self, *arguments)
        for name, update in self.updates.items():
            self.updates[name] = type(update)(update.module, update.scale * factor, update.transposed)

    monkeypatch.setattr(Adapter, "_find_updates", scaled)
    with pytest.raises(ExportFailed, match="the GGUF adapter does not behave like the adapter: "):
        export(tiny_model("qwen2-untied"), tiny_adapter("qwen2-untied"), tmp_path)
    assert list((tmp_path / "gguf").iterdir()) == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"use_dora": True}, "use_dora is True"),
        ({"bias": "lora_only"}, "bias is 'lora_only'"),
        ({"modules_to_save": ["lm_head"], "target_modules": ["q_proj"]}, r"modules_to_save is \['lm_head'\]"),
        ({"target_modules": ["q_proj", "embed_tokens"]}, "it trains .*lora_embedding"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights is 'pissa'"),
    ],
)
def test_what_a_gguf_adapter_cannot_hold_is_refused_with_the_way_out(
    options: dict[str, Any], reason: str, tiny_model: Build, tmp_path: Path
):
    adapter = build_adapter(tmp_path / "adapter", tiny_model("qwen2-untied"), **options)
    with pytest.raises(ExportFailed, match=rf"because {reason}.*: export merged or gguf instead"):
        export(tiny_model("qwen2-untied"), adapter, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_adapter_on_a_shared_output_layer_is_refused(tiny_model: Build, tmp_path: Path):
    adapter = build_adapter(tmp_path / "adapter", tiny_model("qwen2-tied"), target_modules=["q_proj", "lm_head"])
    with pytest.raises(ExportFailed, match="lm_head, which this base model shares with its embeddings"):
        export(tiny_model("qwen2-tied"), adapter, tmp_path)


def test_a_weight_beyond_float16_is_refused(tiny_model: Build, tiny_adapter: Build, tmp_path: Path):
    adapter = shutil.copytree(tiny_adapter("qwen2-tied"), tmp_path / "adapter")
    weights = load_file(adapter / "adapter_model.safetensors")
    next(iter(weights.values()))[0, 0] = 1e6
    save_file(weights, adapter / "adapter_model.safetensors")
    with pytest.raises(ExportFailed, match="beyond the range of float16: export merged or gguf instead"):
        export(tiny_model("qwen2-tied"), adapter, tmp_path / "out")
    assert list((tmp_path / "out" / "gguf").iterdir()) == []


def test_without_an_adapter_there_is_nothing_to_export(tiny_model: Build, tmp_path: Path):
    with pytest.raises(UsageError, match="there is no adapter to export"):
        export(tiny_model("llama"), None, tmp_path)
