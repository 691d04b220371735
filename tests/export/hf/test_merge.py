from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rl.base.errors import ExportFailed, Interrupted, UsageError
from rl.base.export_records import ExportJob
from rl.base.records import silent
from rl.export.hf.merge import export
from tests.export.tiny_models import build_adapter

pytestmark = pytest.mark.learn

Build = Callable[[str], Path]


def next_token_logits(model: torch.nn.Module) -> torch.Tensor:
    with torch.inference_mode():
        return model(input_ids=torch.tensor([[5, 60, 71, 300]])).logits[0, -1].float()


def job(base: Path | str, adapter: Path | None, output: Path) -> ExportJob:
    return ExportJob(base_model=str(base), adapter_dir=adapter, output_dir=output, name="tiny")


def test_a_merged_model_answers_as_the_adapter_on_its_base(tiny_model: Build, tiny_adapter: Build, tmp_path: Path):
    base, adapter = tiny_model("llama"), tiny_adapter("llama")
    result = export(job(base, adapter, tmp_path), silent)
    plain = AutoModelForCausalLM.from_pretrained(base)
    without = next_token_logits(plain)
    adapted = next_token_logits(PeftModel.from_pretrained(plain, str(adapter)))
    merged = next_token_logits(AutoModelForCausalLM.from_pretrained(result.path))
    assert (merged - adapted).abs().max() < 1e-3 < (without - adapted).abs().max()
    assert (result.path, result.quantization) == (tmp_path / "merged", "float32")


def test_a_merged_directory_has_all_that_serving_needs_and_is_for_its_owner_alone(tiny_model: Build, tmp_path: Path):
    result = export(job(tiny_model("qwen2-tied"), None, tmp_path), silent)
    files = {path.name: path.stat() for path in result.path.iterdir()}
    assert files.keys() == {
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert {stat.st_mode & 0o777 for stat in files.values()} == {0o600}
    assert result.details["size_bytes"] == sum(stat.st_size for stat in files.values())
    assert [path.name for path in tmp_path.iterdir()] == ["merged"]


def test_a_model_stored_in_bfloat16_stays_so_and_a_second_export_replaces_the_first(tiny_model: Build, tmp_path: Path):
    half = tmp_path / "half"
    AutoModelForCausalLM.from_pretrained(tiny_model("qwen2-tied"), dtype=torch.bfloat16).save_pretrained(half)
    AutoTokenizer.from_pretrained(tiny_model("qwen2-tied")).save_pretrained(half)
    for _ in range(2):
        result = export(job(half, None, tmp_path / "out"), silent)
    assert result.quantization == "bfloat16"
    assert {weight.dtype for weight in load_file(result.path / "model.safetensors").values()} == {torch.bfloat16}
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["merged"]


def test_a_merge_that_is_cancelled_half_way_leaves_nothing(tiny_model: Build, tiny_adapter: Build, tmp_path: Path):
    steps = []

    def cancel(event: str, values: dict[str, Any]) -> None:
        steps.extend([values["step"]] if event == "step" else [])
        if len(steps) == 3:
            raise Interrupted("cancelled")

    with pytest.raises(Interrupted):
        export(job(tiny_model("llama"), tiny_adapter("llama"), tmp_path), cancel)
    assert steps == [1, 2, 3]
    assert list(tmp_path.iterdir()) == []


def test_a_chat_template_saved_with_the_adapter_is_the_one_exported(
    tiny_model: Build, tiny_adapter: Build, tmp_path: Path
):
    adapter = shutil.copytree(tiny_adapter("qwen2-tied"), tmp_path / "adapter")
    tokenizer = AutoTokenizer.from_pretrained(tiny_model("qwen2-tied"))
    tokenizer.chat_template = "{{ messages[0].content }}!"
    tokenizer.save_pretrained(adapter)
    result = export(job(tiny_model("qwen2-tied"), adapter, tmp_path), silent)
    assert (result.path / "chat_template.jinja").read_text() == "{{ messages[0].content }}!"


def test_a_path_without_a_model_is_a_usage_error_in_one_line(tmp_path: Path):
    with pytest.raises(UsageError, match=r"no base model at .*/nothing: there is no such folder"):
        export(job(tmp_path / "nothing", None, tmp_path), silent)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="is not a model: config.json is missing"):
        export(job(tmp_path / "empty", None, tmp_path), silent)


def test_a_damaged_model_is_told_in_one_line_and_leaves_nothing(tiny_model: Build, tmp_path: Path):
    broken = shutil.copytree(tiny_model("gpt2"), tmp_path / "broken")
    with (broken / "model.safetensors").open("r+b") as weights:
        weights.truncate(1000)
    with pytest.raises(ExportFailed, match=r"cannot read .*model.safetensors: ") as caught:
        export(job(broken, None, tmp_path / "out"), silent)
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_an_adapter_of_another_model_is_refused(tiny_model: Build, tiny_adapter: Build, tmp_path: Path):
    with pytest.raises(ExportFailed, match="the adapter .* does not fit "):
        export(job(tiny_model("gpt2"), tiny_adapter("llama"), tmp_path), silent)


def test_an_adapter_with_tokens_of_its_own_says_which_and_what_to_do(tiny_model: Build, tmp_path: Path):
    base = tiny_model("llama")
    tokenizer, model = AutoTokenizer.from_pretrained(base), AutoModelForCausalLM.from_pretrained(base)
    known = model.get_input_embeddings().weight.shape[0]
    tokenizer.add_tokens([f"<filler{number}>" for number in range(known - len(tokenizer))] + ["<look>", "<done>"])
    model.resize_token_embeddings(len(tokenizer))
    config = LoraConfig(
        r=2, target_modules=["q_proj"], modules_to_save=["embed_tokens", "lm_head"], task_type="CAUSAL_LM"
    )
    get_peft_model(model, config).save_pretrained(tmp_path / "adapter")
    tokenizer.save_pretrained(tmp_path / "adapter")
    told = rf"embeddings of {known + 2} tokens, and the model {known}; new are <look> <done>\. Merge it"
    with pytest.raises(ExportFailed, match=told):
        export(job(base, tmp_path / "adapter", tmp_path), silent)


def test_adapter_weights_that_find_no_place_are_not_passed_over(tiny_model: Build, tiny_adapter: Build, tmp_path: Path):
    adapter = shutil.copytree(tiny_adapter("llama"), tmp_path / "adapter")
    weights = load_file(adapter / "adapter_model.safetensors")
    renamed = {name.replace("layers.1.", "layers.7."): weight for name, weight in weights.items()}
    save_file(renamed, adapter / "adapter_model.safetensors")
    with pytest.raises(ExportFailed, match=r"does not fit .*: 28 weights do not match"):
        export(job(tiny_model("llama"), adapter, tmp_path), silent)


def test_an_adapter_on_a_shared_output_layer_is_refused_because_the_embeddings_would_change_too(
    tiny_model: Build, tmp_path: Path
):
    adapter = build_adapter(tmp_path / "adapter", tiny_model("qwen2-tied"), target_modules=["q_proj", "lm_head"])
    with pytest.raises(ExportFailed, match="trains lm_head or the embeddings, which are one matrix in"):
        export(job(tiny_model("qwen2-tied"), adapter, tmp_path / "out"), silent)


def test_an_adapter_stored_as_a_pickle_is_not_loaded(tiny_model: Build, tiny_adapter: Build, tmp_path: Path):
    adapter = shutil.copytree(tiny_adapter("llama"), tmp_path / "adapter")
    (adapter / "adapter_model.safetensors").unlink()
    (adapter / "adapter_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(ExportFailed, match="is not a finished adapter: it has no adapter_model.safetensors"):
        export(job(tiny_model("llama"), adapter, tmp_path), silent)


def test_an_unreachable_hub_id_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ExportFailed, match="cannot load the tokenizer of ratchet-tests/no-such-model") as caught:
        export(job("ratchet-tests/no-such-model", None, tmp_path), silent)
    assert "\n" not in str(caught.value)


def test_the_adapter_may_name_a_base_that_has_moved(tiny_model: Build, tiny_adapter: Build, tmp_path: Path):
    adapter = shutil.copytree(tiny_adapter("llama"), tmp_path / "adapter")
    config = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps(config | {"base_model_name_or_path": "/gone"}))
    assert export(job(tiny_model("llama"), adapter, tmp_path), silent).path.is_dir()
