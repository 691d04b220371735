import sys
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type

from rl.base.errors import ExportFailed
from rl.export.gguf.quantize import k_quant_library, quantize

pytestmark = pytest.mark.learn


def weights(rows: int = 33, width: int = 512) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(rows, width)).astype(np.float32)


@pytest.mark.parametrize(
    ("kind", "worst"),
    [
        (Type.F32, 0.0),
        (Type.F16, 0.002),
        (Type.BF16, 0.02),
        (Type.Q8_0, 0.02),
        (Type.Q6_K, 0.1),
        (Type.Q5_K, 0.2),
        (Type.Q5_1, 0.2),
        (Type.Q5_0, 0.3),
        (Type.Q4_K, 0.4),
        (Type.Q4_0, 0.5),
        (Type.Q3_K, 0.8),
        (Type.Q2_K, 1.6),
    ],
)
def test_what_is_read_back_is_near_to_what_was_written(kind: Type, worst: float):
    values = weights()
    back = gguf.quants.dequantize(quantize(values, kind), kind)
    assert back.shape == values.shape
    assert np.abs(back - values).max() <= worst


def test_rows_shared_out_over_threads_give_the_same_bytes():
    before = torch.get_num_threads()
    try:
        made = {}
        for threads in (1, 3):
            torch.set_num_threads(threads)
            made[threads] = quantize(weights(), Type.Q4_K)
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(made[1], made[3])


def test_a_weight_beyond_float16_is_refused_with_the_way_out():
    values = weights()
    values[0, 0] = 70000.0
    with pytest.raises(ExportFailed, match="beyond the range of float16: export bf16 or f32 instead"):
        quantize(values, Type.F16)


@pytest.fixture
def fresh_lookup() -> Iterator[None]:
    """The library is looked up once per process; these tests look again, and leave no trace of what they found."""
    k_quant_library.cache_clear()
    yield
    k_quant_library.cache_clear()


@pytest.mark.usefixtures("fresh_lookup")
def test_a_missing_package_is_told_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(
        ExportFailed,
        match="levels below q8_0 need llama-quantize or the package xllamacpp; install it with: pip install",
    ):
        k_quant_library()


@pytest.mark.usefixtures("fresh_lookup")
def test_the_library_of_llama_cpp_python_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It is llama.cpp's own, which xllamacpp has inside; here that one stands in for it."""
    assert k_quant_library().package == "xllamacpp"
    expected = quantize(weights(), Type.Q4_K)
    (tmp_path / "llama_cpp" / "lib").mkdir(parents=True)
    (tmp_path / "llama_cpp" / "__init__.py").write_text("raise ImportError('it is looked at, never imported')")
    (tmp_path / "llama_cpp" / "lib" / "libggml-base.so").symlink_to(k_quant_library().library._name)
    monkeypatch.syspath_prepend(tmp_path)
    k_quant_library.cache_clear()
    assert k_quant_library().package == "llama_cpp"
    assert str(tmp_path) in k_quant_library().library._name
    assert np.array_equal(quantize(weights(), Type.Q4_K), expected)


@pytest.mark.usefixtures("fresh_lookup")
@pytest.mark.parametrize(
    ("extension", "what"), [(None, "has no compiled extension; reinstall"), (b"no library", "cannot load xllamacpp: ")]
)
def test_a_damaged_installation_is_told(
    extension: bytes | None, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    package = tmp_path / "xllamacpp"
    package.mkdir()
    (package / "__init__.py").touch()
    if extension is not None:
        (package / "xllamacpp.abi3.so").write_bytes(extension)
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ExportFailed, match=f"{what}.*pip install xllamacpp"):
        k_quant_library()
