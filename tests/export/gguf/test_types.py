import pytest
from gguf import GGMLQuantizationType as Type

from rl.config.levels import LEVELS
from rl.export.gguf.types import Mixture, byte_size, describe_replaced

WIDE = (512, 256)


def kinds(level: str, tensor: str, layers: int = 16, heads_per_kv_head: int = 1) -> list[str]:
    mixture = Mixture(level, layers, heads_per_kv_head, "output.weight")
    return [mixture.type_of(f"blk.{layer}.{tensor}.weight", WIDE).name for layer in range(layers)]


def test_the_mixture_of_q4_k_m_gives_more_bits_to_the_ends_and_to_every_third_layer():
    more, base = "Q6_K", "Q4_K"
    expected = [more] * 2 + [base, base, more] * 4 + [more] * 2
    assert kinds("q4_k_m", "ffn_down") == kinds("q4_k_m", "attn_v") == kinds("q4_k_m", "attn_qkv") == expected
    assert kinds("q4_k_m", "attn_output") == kinds("q4_k_m", "ffn_up") == [base] * 16


@pytest.mark.parametrize(
    ("level", "value", "down", "output", "up"),
    [
        ("q2_k", ["Q3_K"] * 16, ["Q3_K"] * 16, "Q3_K", "Q2_K"),
        ("q3_k_s", ["Q3_K"] * 16, ["Q3_K"] * 16, "Q3_K", "Q3_K"),
        ("q3_k_m", ["Q5_K"] * 2 + ["Q4_K"] * 14, ["Q5_K"] + ["Q4_K"] * 15, "Q4_K", "Q3_K"),
        ("q3_k_l", ["Q5_K"] * 16, ["Q5_K"] * 16, "Q5_K", "Q3_K"),
        ("q4_k_s", ["Q5_K"] * 4 + ["Q4_K"] * 12, ["Q5_K"] * 2 + ["Q4_K"] * 14, "Q4_K", "Q4_K"),
        ("q4_0", ["Q4_0"] * 16, ["Q4_0"] * 16, "Q4_0", "Q4_0"),
        ("q5_0", ["Q5_0"] * 16, ["Q5_0"] * 16, "Q5_0", "Q5_0"),
        ("q5_k_s", ["Q5_K"] * 16, ["Q5_K"] * 16, "Q5_K", "Q5_K"),
        ("q6_k", ["Q6_K"] * 16, ["Q6_K"] * 16, "Q6_K", "Q6_K"),
        ("q8_0", ["Q8_0"] * 16, ["Q8_0"] * 16, "Q8_0", "Q8_0"),
        ("f16", ["F16"] * 16, ["F16"] * 16, "F16", "F16"),
    ],
)
def test_the_mixture_of_each_level(level: str, value: list[str], down: list[str], output: str, up: str):
    assert kinds(level, "attn_v") == value
    assert kinds(level, "ffn_down") == down
    assert kinds(level, "attn_output") == [output] * 16
    assert kinds(level, "ffn_up") == [up] * 16


def test_values_shared_by_many_heads_get_more_bits_at_q2_k():
    assert set(kinds("q2_k", "attn_v", heads_per_kv_head=4)) == {"Q4_K"}


@pytest.mark.parametrize(
    ("level", "expected"), [("q2_k", Type.Q6_K), ("q4_0", Type.Q6_K), ("q8_0", Type.Q8_0), ("bf16", Type.BF16)]
)
def test_the_matrix_that_makes_the_logits_keeps_six_bits(level: str, expected: Type):
    tied = Mixture(level, 2, 1, "token_embd.weight")
    assert tied.type_of("token_embd.weight", WIDE) is expected


@pytest.mark.parametrize("level", LEVELS)
def test_vectors_norms_and_positions_are_never_rounded(level: str):
    mixture = Mixture(level, 2, 1, "output.weight")
    names = ("blk.0.attn_q.bias", "blk.0.attn_norm.weight", "position_embd.weight", "rope_freqs.weight")
    shapes = ((256,), (256,), (512, 256), (32,))
    assert {mixture.type_of(name, shape) for name, shape in zip(names, shapes, strict=True)} == {Type.F32}


@pytest.mark.parametrize(
    ("level", "width", "expected"),
    [
        ("q2_k", 192, Type.Q4_0),
        ("q4_k_m", 192, Type.Q5_0),
        ("q5_k_m", 192, Type.Q5_1),
        ("q6_k", 192, Type.Q8_0),
        ("q4_k_m", 40, Type.F16),
        ("q8_0", 40, Type.F16),
    ],
)
def test_a_width_that_does_not_fit_the_block_falls_back(level: str, width: int, expected: Type):
    assert Mixture(level, 2, 1, "output.weight").type_of("blk.0.ffn_up.weight", (64, width)) is expected


def test_the_size_of_a_tensor_is_that_of_its_blocks():
    assert byte_size(Type.Q4_K, (10, 512)) == 10 * 2 * 144
    assert byte_size(Type.F16, (3, 5)) == 30


def test_the_file_type_names_the_level():
    assert Mixture("q4_k_m", 2, 1, "output.weight").file_type.name == "MOSTLY_Q4_K_M"
    assert Mixture("f32", 2, 1, "output.weight").file_type.name == "ALL_F32"


def test_a_level_whose_blocks_are_wider_than_most_matrices_is_warned_about():
    narrow = {"F32": 61, "Q5_0": 166, "Q8_0": 30, "Q6_K": 15}
    assert describe_replaced("q4_k_m", narrow).startswith("196 of 211 matrices are too narrow for the blocks of q4_k_m")
    assert describe_replaced("q4_k_m", {"F32": 61, "Q4_K": 180, "Q6_K": 31}) == ""
    assert describe_replaced("q8_0", narrow) == ""
