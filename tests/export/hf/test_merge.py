import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import save_torch_state_dict
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rl.base.errors import ExportFailed, Interrupted, UsageError
from rl.base.export_records import ExportJob
from rl.base.records import silent
from rl.export.hf import merge
from rl.export.hf.loading import load_config, load_merged
from rl.export.hf.merge import BaseWeights, MergedWeights, export, write_shards
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


WEIGHTS = {"b": torch.randn(30, 5), "a": torch.randn(170), "c.weight": torch.randn(2, 3, 4), "empty": torch.zeros(0, 4)}
SHAPES = {name: tuple(values.shape) for name, values in WEIGHTS.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_library_reads_what_was_written(dtype: torch.dtype, tmp_path: Path):
    weights = {name: values.to(dtype) for name, values in WEIGHTS.items()}
    write_shards(tmp_path, SHAPES, dtype, weights.__getitem__, "4GB")
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
    made = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(made[name], values) for name, values in weights.items())
    with safe_open(tmp_path / "model.safetensors", framework="pt") as handle:
        assert handle.metadata() == {"format": "pt"}


def test_a_large_model_is_cut_as_the_hub_cuts_it(tmp_path: Path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    write_shards(ours, SHAPES, torch.float32, WEIGHTS.__getitem__, "1KB")
    save_torch_state_dict(WEIGHTS, theirs, max_shard_size="1KB")
    names = sorted(path.name for path in theirs.iterdir())
    assert sorted(path.name for path in ours.iterdir()) == names
    index = "model.safetensors.index.json"
    first, second = (json.loads((folder / index).read_text()) for folder in (ours, theirs))
    assert first["weight_map"] == second["weight_map"]
    assert first["metadata"] == {"total_size": second["metadata"]["total_size"], "total_parameters": 344}
    for name in set(names) - {index}:
        assert all(torch.equal(values, WEIGHTS[key]) for key, values in load_file(ours / name).items())


def test_a_tensor_of_another_shape_than_planned_is_never_written(tmp_path: Path):
    with pytest.raises(ValueError, match=r"a was planned as torch.float32 \[2\], not torch.float32 \[3\]"):
        write_shards(tmp_path, {"a": (2,)}, torch.float32, lambda name: torch.zeros(3), "4GB")


def opened(base: Path, adapter: Path | None) -> MergedWeights:
    return MergedWeights(BaseWeights(str(base), load_config(str(base))), adapter)


def merged_by_peft(base: Path, adapter: Path | None, directory: Path) -> dict[str, torch.Tensor]:
    load_merged(str(base), adapter).save_pretrained(directory)
    return load_file(directory / "model.safetensors")


def in_bfloat16(base: Path, directory: Path) -> Path:
    AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16).save_pretrained(directory)
    AutoTokenizer.from_pretrained(base).save_pretrained(directory)
    return directory


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "patterns": {
        "alpha_pattern": {"o_proj": 32, "mlp.c_proj": 5, r"layers\.1\..*up_proj": 3},
        "rank_pattern": {"q_proj": 2, "c_attn": 3},
    },
    "rslora": {"use_rslora": True, "rank_pattern": {"q_proj": 2, "c_attn": 3}},
    "fan_in_fan_out": {"fan_in_fan_out": True},
    "gaussian": {"init_lora_weights": "gaussian"},
}


@pytest.mark.parametrize("family", ["qwen2-tied", "gpt2"])
@pytest.mark.parametrize("option", OPTIONS)
def test_every_weight_is_the_one_that_peft_merges(family: str, option: str, tiny_model: Build, tmp_path: Path):
    base = tiny_model(family)
    adapter = build_adapter(tmp_path / "adapter", base, **OPTIONS[option])
    weights = opened(base, adapter)
    expected = merged_by_peft(base, adapter, tmp_path / "peft")
    plain = load_file(base / "model.safetensors")
    assert not weights.obstacle
    assert weights.shapes == {name: tuple(values.shape) for name, values in expected.items()}
    for name, values in expected.items():
        assert (weights.tensor(name) - values).abs().max() < 1e-6
    assert sum(not torch.equal(plain[name], values) for name, values in expected.items()) == len(
        weights.adapter.updates
    )


@pytest.mark.parametrize("adapter_dtype", [torch.float32, torch.bfloat16])
def test_a_bfloat16_base_is_rounded_once_after_the_sum_bit_for_bit_as_peft_does(
    adapter_dtype: torch.dtype, tiny_model: Build, tmp_path: Path
):
    base = in_bfloat16(tiny_model("llama"), tmp_path / "half")
    adapter = build_adapter(tmp_path / "adapter", base)
    stored = load_file(adapter / "adapter_model.safetensors")
    save_file(
        {name: values.to(adapter_dtype) for name, values in stored.items()}, adapter / "adapter_model.safetensors"
    )
    weights = opened(base, adapter)
    for name, values in merged_by_peft(base, adapter, tmp_path / "peft").items():
        assert torch.equal(weights.tensor(name), values)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3"])
def test_the_files_are_those_that_transformers_writes(
    family: str, tiny_model: Build, tiny_adapter: Build, tmp_path: Path
):
    base, adapter = tiny_model(family), tiny_adapter(family)
    job = ExportJob(str(base), adapter, tmp_path, "tiny")
    made = merge.export(job, silent).path
    merged_by_peft(base, adapter, tmp_path / "peft")
    ours, theirs = (load_file(directory / "model.safetensors") for directory in (made, tmp_path / "peft"))
    assert ours.keys() == theirs.keys()
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-6, rtol=0) for name in theirs)
    for name in ("config.json", "generation_config.json"):
        assert json.loads((made / name).read_text()) == json.loads((tmp_path / "peft" / name).read_text())


def told(base: Path, adapter: Path | None, output: Path) -> list[str]:
    said: list[str] = []
    merge.export(
        ExportJob(str(base), adapter, output, "tiny"),
        lambda event, values: said.append(values["text"]) if event == "log" else None,
    )
    return said


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"use_dora": True}, "use_dora is True"),
        ({"modules_to_save": ["lm_head"], "target_modules": ["q_proj"]}, "modules_to_save is ['lm_head']"),
        ({"target_modules": ["q_proj", "embed_tokens"]}, "it trains base_model.model.model.embed_tokens"),
        ({"bias": "lora_only"}, "bias is 'lora_only'"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights is 'pissa'"),
    ],
)
def test_what_is_not_plain_is_merged_by_peft_and_the_log_says_why(
    options: dict[str, Any], why: str, tiny_model: Build, tmp_path: Path
):
    base = tiny_model("qwen2-untied")
    adapter = build_adapter(tmp_path / "adapter", base, **options)
    said = told(base, adapter, tmp_path)
    assert [why in text and text.startswith("merged in memory") for text in said] == [True]
    expected = merged_by_peft(base, adapter, tmp_path / "peft")
    made = load_file(tmp_path / "merged" / "model.safetensors")
    assert made.keys() == expected.keys()
    assert all(torch.equal(made[name], expected[name]) for name in expected)


def change(base: Path, directory: Path, weights: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Path:
    shutil.copytree(base, directory)
    save_file(weights(load_file(base / "model.safetensors")), directory / "model.safetensors", {"format": "pt"})
    return directory


def test_files_without_the_models_prefix_are_read_too(tiny_model: Build, tiny_adapter: Build, tmp_path: Path):
    def bare(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        mask = {"h.0.attn.bias": torch.ones(1, 1, 4, 4)}
        return {name.removeprefix("transformer."): values for name, values in weights.items()} | mask

    base = change(tiny_model("gpt2"), tmp_path / "bare", bare)
    assert told(base, tiny_adapter("gpt2"), tmp_path) == []
    expected = merged_by_peft(tiny_model("gpt2"), tiny_adapter("gpt2"), tmp_path / "peft")
    made = load_file(tmp_path / "merged" / "model.safetensors")
    assert all(torch.allclose(made[name], expected[name], atol=1e-6, rtol=0) for name in expected)


def test_a_tied_matrix_that_is_stored_twice_is_written_once(tiny_model: Build, tmp_path: Path):
    def twice(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return weights | {"lm_head.weight": weights["model.embed_tokens.weight"].clone()}

    assert "lm_head.weight" not in opened(change(tiny_model("qwen2-tied"), tmp_path / "twice", twice), None).shapes


@pytest.mark.parametrize(
    ("weights", "why"),
    [
        (lambda old: old | {"lm_head.weight": old["model.embed_tokens.weight"] + 1}, "are said to be one, and are not"),
        (
            lambda old: {name.replace("up_proj", "wide"): values for name, values in old.items()},
            r"other weights than transformers expects \(model.layers.0.mlp.wide",
        ),
    ],
)
def test_a_base_of_another_form_is_left_to_transformers(weights: Any, why: str, tiny_model: Build, tmp_path: Path):
    assert re.search(why, opened(change(tiny_model("qwen2-tied"), tmp_path / "other", weights), None).obstacle)


def test_a_quantised_base_is_left_to_transformers(tiny_model: Build):
    config = load_config(str(tiny_model("llama")))
    config.quantization_config = {"quant_method": "bitsandbytes"}
    assert BaseWeights(str(tiny_model("llama")), config).obstacle == "the base model is stored quantised"


def without_one(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: values for name, values in weights.items() if "layers.1.mlp.up_proj" not in name}


def too_narrow(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return weights | {"model.layers.0.mlp.up_proj.weight": torch.zeros(4, 4)}


def not_a_number(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return weights | {"model.norm.weight": torch.full_like(weights["model.norm.weight"], float("nan"))}


@pytest.mark.parametrize(
    ("weights", "what"),
    [
        (without_one, "is not whole: it lacks model.layers.1.mlp.up_proj.weight"),
        (too_narrow, r"has the shape \[4, 4\], but its configuration says \[512, 256\]"),
        (not_a_number, "the weight model.norm.weight holds NaN or infinity"),
    ],
)
def test_a_damaged_base_is_told_in_one_line_and_leaves_nothing(
    weights: Any, what: str, tiny_model: Build, tmp_path: Path
):
    base = change(tiny_model("llama"), tmp_path / "broken", weights)
    with pytest.raises(ExportFailed, match=what) as caught:
        merge.export(ExportJob(str(base), None, tmp_path / "out", "tiny"), silent)
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_an_update_that_overflows_is_refused(tiny_model: Build, tiny_adapter: Build, tmp_path: Path):
    adapter = shutil.copytree(tiny_adapter("llama"), tmp_path / "adapter")
    weights = load_file(adapter / "adapter_model.safetensors")
    save_file({name: values * 1e25 for name, values in weights.items()}, adapter / "adapter_model.safetensors")
    with pytest.raises(ExportFailed, match="with its update holds NaN or infinity"):
        merge.export(ExportJob(str(tiny_model("llama")), adapter, tmp_path / "out", "tiny"), silent)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_model_of_the_hub_is_read_from_its_cache(tiny_model: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    repository = tmp_path / "models--owner--name"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("a" * 40)
    shutil.copytree(tiny_model("gpt2"), repository / "snapshots" / ("a" * 40))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    base = BaseWeights("owner/name", load_config(str(tiny_model("gpt2"))))
    assert torch.equal(
        base.tensor("transformer.ln_f.bias"), opened(tiny_model("gpt2"), None).tensor("transformer.ln_f.bias")
    )
