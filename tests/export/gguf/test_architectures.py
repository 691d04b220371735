from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from transformers import (
    AutoConfig,
    Gemma2Config,
    Gemma3Config,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    Qwen3Config,
)

from rl.base.errors import ExportFailed
from rl.export.gguf.architectures import (
    ARCHITECTURES,
    find_architecture,
    gguf_name,
    plan_tensors,
    rearrange,
    reorder_rows,
    write_hyperparameters,
)
from rl.export.gguf.rope import llama3_factors
from rl.export.gguf.weights import Checkpoint

pytestmark = pytest.mark.learn

LLAMA = ARCHITECTURES["LlamaForCausalLM"]


def metadata(config: Any) -> dict[str, Any]:
    writer = gguf.GGUFWriter(None, "x")
    write_hyperparameters(writer, config, ARCHITECTURES[config.architectures[0]])
    return {name.removeprefix("x."): value.value for name, value in writer.kv_data[0].items()}


def test_an_unsupported_architecture_is_named_with_the_supported_ones():
    with pytest.raises(
        ExportFailed, match=r"architecture Phi3ForCausalLM; supported: LlamaForCausalLM, .*GPT2LMHeadModel"
    ):
        find_architecture(Phi3Config(architectures=["Phi3ForCausalLM"], pad_token_id=0))


@pytest.mark.parametrize(
    ("config", "what"),
    [
        (LlamaConfig(architectures=["LlamaForCausalLM"], hidden_act="gelu"), "hidden_act='gelu'; only 'silu' works"),
        (GPT2Config(architectures=["GPT2LMHeadModel"], scale_attn_weights=False), "scale_attn_weights=False"),
        (Qwen3Config(architectures=["Qwen3ForCausalLM"], attention_bias=True), "attention_bias=True"),
    ],
)
def test_a_variant_that_llama_cpp_would_run_wrongly_is_refused(config: Any, what: str):
    with pytest.raises(ExportFailed, match=what):
        find_architecture(config)


def test_query_rows_go_from_halves_to_neighbouring_pairs():
    config = LlamaConfig(hidden_size=8, num_attention_heads=2, num_key_value_heads=1, head_dim=4)
    rows = np.arange(8, dtype=np.float32)
    query = reorder_rows(rows, "model.layers.0.self_attn.q_proj.weight", LLAMA, config)
    assert query.tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    key = reorder_rows(rows[:4], "model.layers.0.self_attn.k_proj.bias", LLAMA, config)
    assert key.tolist() == [0, 2, 1, 3]
    value = reorder_rows(rows, "model.layers.0.self_attn.v_proj.weight", LLAMA, config)
    assert value.tolist() == rows.tolist()


def test_a_tensor_without_a_counterpart_is_refused():
    config = LlamaConfig(num_hidden_layers=2)
    assert gguf_name(LLAMA, config, "model.layers.1.mlp.up_proj.weight") == "blk.1.ffn_up.weight"
    with pytest.raises(ExportFailed, match="tensor model.layers.2.mlp.up_proj.weight has no counterpart"):
        gguf_name(LLAMA, config, "model.layers.2.mlp.up_proj.weight")


def test_a_sliding_window_ends_the_context_that_is_promised():
    config = MistralConfig(architectures=["MistralForCausalLM"], max_position_embeddings=32768, sliding_window=4096)
    assert metadata(config)["context_length"] == 4096
    config.sliding_window = None
    assert metadata(config)["context_length"] == 32768


@pytest.mark.parametrize(
    ("rope", "expected"),
    [
        ({"rope_type": "linear", "factor": 4.0}, {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}),
        (
            {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64},
            {"rope.scaling.type": "yarn", "rope.scaling.factor": 2.0, "rope.scaling.original_context_length": 64},
        ),
    ],
)
def test_rope_scaling_is_written(rope: dict[str, Any], expected: dict[str, Any]):
    config = LlamaConfig(architectures=["LlamaForCausalLM"], rope_parameters={"rope_theta": 5e5, **rope})
    written = metadata(config)
    assert expected.items() <= {name: getattr(value, "value", value) for name, value in written.items()}.items()
    assert written["rope.freq_base"] == 5e5


@pytest.mark.parametrize(
    ("rope", "what"),
    [
        ({"rope_type": "dynamic", "factor": 2.0}, "rope scaling 'dynamic'; supported: default, linear, yarn, llama3"),
        ({"rope_type": "default", "partial_rotary_factor": 0.5}, "rotates only 0.5 of each head"),
        ({"rope_type": "yarn", "factor": 2.0, "beta_fast": 16.0}, "YaRN rope scaling with beta_fast set"),
    ],
)
def test_rope_scaling_that_gguf_cannot_express_is_refused(rope: dict[str, Any], what: str):
    config = LlamaConfig(architectures=["LlamaForCausalLM"])
    config.rope_parameters = {"rope_theta": 1e4, **rope}
    with pytest.raises(ExportFailed, match=what):
        metadata(config)


def test_llama3_scaling_leaves_short_waves_and_stretches_long_ones():
    config = LlamaConfig()
    config.rope_parameters = {
        "rope_type": "llama3",
        "rope_theta": 1e4,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    factors = llama3_factors(config, head_dim=16)
    assert factors is not None
    # Wavelengths are 2 pi 10^(i/2): 6.3, 19.9, 62.8, 198.7 ...; short ends at 64 / 4 = 16, long begins at 64 / 1 = 64.
    assert factors[0] == 1.0
    assert factors[3:].tolist() == [8.0] * 5
    blend = (64 / 19.869 - 1) / 3
    assert factors[1] == pytest.approx(1 / ((1 - blend) / 8 + blend), rel=1e-3)


def test_a_shared_output_matrix_is_written_once(tiny_model: Callable[[str], Path]):
    for family, expected in (("qwen2-tied", False), ("qwen2-untied", True), ("gpt2", False)):
        directory = tiny_model(family)
        config = AutoConfig.from_pretrained(directory)
        names = {tensor.name for tensor in plan_tensors(Checkpoint(directory), find_architecture(config), config)}
        assert ("output.weight" in names, "token_embd.weight" in names) == (expected, True)


def gemma2(**options: Any) -> Gemma2Config:
    return Gemma2Config(architectures=["Gemma2ForCausalLM"], **options)


def gemma3(**options: Any) -> Gemma3TextConfig:
    return Gemma3TextConfig(architectures=["Gemma3ForCausalLM"], **options)


def test_gemma_says_what_llama_cpp_needs():
    written = metadata(gemma2(max_position_embeddings=8192, sliding_window=4096))
    assert (written["context_length"], written["attention.sliding_window"]) == (8192, 4096)
    assert (written["attn_logit_softcapping"], written["final_logit_softcapping"]) == (50.0, 30.0)
    assert "rope.freq_base_swa" not in written
    written = metadata(gemma3())
    assert (written["rope.freq_base"], written["rope.freq_base_swa"]) == (1e6, 1e4)
    assert "attn_logit_softcapping" not in written


def test_the_largest_gemmas_have_another_attention_scale():
    find_architecture(
        gemma2(num_hidden_layers=46, hidden_size=4608, num_attention_heads=32, head_dim=128, query_pre_attn_scalar=144)
    )
    find_architecture(
        gemma3(num_hidden_layers=62, hidden_size=5376, num_attention_heads=32, head_dim=128, query_pre_attn_scalar=168)
    )


ROPE = {"rope_type": "default", "rope_theta": 1e4}
YARN = {**ROPE, "rope_type": "yarn", "factor": 4.0}


@pytest.mark.parametrize(
    ("config", "what"),
    [
        (gemma2(query_pre_attn_scalar=224), "query_pre_attn_scalar=224; only 256 works"),
        (gemma3(num_hidden_layers=62), "query_pre_attn_scalar=256; only 288 works"),
        (gemma2(final_logit_softcapping=None), "final_logit_softcapping=None; only a number above 0 works"),
        (gemma3(attn_logit_softcapping=50.0), "attn_logit_softcapping=50.0; only null works"),
        (gemma2(layer_types=["full_attention"] * 26), "other layer_types than one full_attention in 2 layers"),
        (gemma3(sliding_window_pattern=4), "other layer_types than one full_attention in 6 layers"),
        (gemma2(sliding_window=None), "without a sliding_window"),
        (gemma2(tie_word_embeddings=False), "tie_word_embeddings=False; only True works"),
        (gemma3(use_bidirectional_attention=True), "use_bidirectional_attention=True; only False works"),
        (gemma3(hidden_activation="relu"), "hidden_activation='relu'; only 'gelu_pytorch_tanh' works"),
        (gemma2(rope_parameters=YARN), "rope scaling 'yarn'; supported: default, linear"),
        (gemma3(rope_parameters={"full_attention": YARN, "sliding_attention": ROPE}), "rope scaling 'yarn'"),
        (
            gemma3(
                rope_parameters={
                    "full_attention": ROPE,
                    "sliding_attention": {**ROPE, "rope_type": "linear", "factor": 2.0},
                }
            ),
            "a rope scaling in its sliding_attention layers",
        ),
        (Gemma3Config(architectures=["Gemma3ForConditionalGeneration"]), "architecture Gemma3ForConditionalGeneration"),
    ],
)
def test_a_gemma_that_llama_cpp_would_run_wrongly_is_refused(config: Any, what: str):
    with pytest.raises(ExportFailed, match=what):
        find_architecture(config)


def test_norms_of_gemma_are_written_as_what_is_multiplied():
    weight = np.array([-1.0, 0.5], dtype=np.float32)
    gemma = ARCHITECTURES["Gemma3ForCausalLM"]
    for name in ("model.norm", "model.layers.0.input_layernorm", "model.layers.0.self_attn.q_norm"):
        assert rearrange(weight, f"{name}.weight", gemma, gemma3()).tolist() == [0.0, 1.5]
        assert rearrange(weight, f"{name}.weight", LLAMA, LlamaConfig()).tolist() == weight.tolist()
    assert rearrange(weight, "model.layers.0.mlp.up_proj.weight", gemma, gemma3()).tolist() == weight.tolist()
