"""Architectures that only a llama.cpp checkout converts, and k-levels that llama-quantize makes."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader
from transformers import Phi3Config

from rl.base.errors import ExportFailed
from rl.base.export_records import ExportJob, ExportResult
from rl.base.records import silent
from rl.export.gguf.architectures import ARCHITECTURES
from rl.export.gguf.export import convert, export, plan_making, requantize
from rl.export.hf.loading import load_config
from tests.export.llama_cpp_doubles import checkout, handing_out, program

pytestmark = pytest.mark.learn

Build = Callable[[str], Path]


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LLAMA_CPP_DIR", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))


def run(base: Path, adapter: Path | None, output: Path, level: str) -> ExportResult:
    return export(ExportJob(str(base), adapter, output, "tiny", level), silent)


def forget_qwen2(monkeypatch: pytest.MonkeyPatch, llama_cpp: Path) -> None:
    """Its architecture is taken for unknown from now on, and there is a checkout."""
    monkeypatch.delitem(ARCHITECTURES, "Qwen2ForCausalLM")
    monkeypatch.setenv("LLAMA_CPP_DIR", str(llama_cpp))


def left_over(directory: Path) -> list[str]:
    return [path.name for path in directory.rglob("*") if path.is_file()]


def contents(path: Path) -> dict[str, tuple[str, bytes]]:
    return {
        tensor.name: (tensor.tensor_type.name, np.ascontiguousarray(tensor.data).tobytes())
        for tensor in GGUFReader(path).tensors
    }


def test_the_refusal_of_an_unknown_architecture_names_the_way_out():
    config = Phi3Config(architectures=["Phi3ForCausalLM"], pad_token_id=0)
    with pytest.raises(
        ExportFailed,
        match="architecture Phi3ForCausalLM; supported: Llama.*; for another one, set LLAMA_CPP_DIR to a checkout",
    ):
        plan_making(config, "q8_0")


@pytest.mark.parametrize(("level", "quantizer"), [("f16", "convert_hf_to_gguf.py"), ("q4_k_m", "xllamacpp")])
def test_an_unknown_architecture_is_converted_by_the_checkout(
    level: str, quantizer: str, tiny_model: Build, tiny_adapter: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    base, adapter = tiny_model("qwen2-untied"), tiny_adapter("qwen2-untied")
    ours = run(base, adapter, tmp_path / "ours", level)
    if level == "q4_k_m":
        run(base, adapter, tmp_path / "ours", "f32")
    forget_qwen2(monkeypatch, checkout(tmp_path / "llama.cpp", handing_out(ours.path.parent)))
    result = run(base, adapter, tmp_path / "out", level)
    assert result.details["quantizer"] == quantizer
    assert left_over(tmp_path / "out") == [f"tiny-{level}.gguf"]
    assert contents(result.path) == contents(ours.path)
    assert result.details["tensor_types"] == ours.details["tensor_types"]


@pytest.mark.parametrize(
    ("script", "what"),
    [
        (
            "import sys\nprint('loading')\nsys.exit('BPE pre-tokenizer was not recognized')",
            r"\(1\): BPE pre-tokenizer was",
        ),
        ("raise NotImplementedError('Architecture is not supported!')", "NotImplementedError: Architecture is not"),
        ("print('I forgot to write it')", r"\(0\): I forgot to write it"),
        ("import sys\nopen(sys.argv[3], 'wb').write(b'no GGUF')", "what was made is not a GGUF file"),
    ],
)
def test_a_script_that_fails_is_told_by_its_last_line_and_leaves_nothing(
    script: str, what: str, tiny_model: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    forget_qwen2(monkeypatch, checkout(tmp_path / "llama.cpp", script))
    with pytest.raises(ExportFailed, match=what) as caught:
        run(tiny_model("qwen2-untied"), None, tmp_path / "out", "f16")
    assert "\n" not in str(caught.value)
    assert left_over(tmp_path / "out") == []


def test_a_checkout_whose_converter_is_wrong_is_found_out(
    tiny_model: Build, tiny_adapter: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    another = run(tiny_model("qwen2-untied"), tiny_adapter("qwen2-untied"), tmp_path / "another", "f16")
    forget_qwen2(monkeypatch, checkout(tmp_path / "llama.cpp", handing_out(another.path.parent)))
    with pytest.raises(ExportFailed, match="does not behave like the model"):
        run(tiny_model("qwen2-untied"), None, tmp_path / "out", "f16")
    assert left_over(tmp_path / "out") == []


def test_llama_quantize_makes_the_k_levels_where_it_is_installed(
    tiny_model: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    expected = run(tiny_model("qwen2-tied"), None, tmp_path / "ours", "q4_k_m")
    record = f"json.dump(sys.argv[1:], open({str(tmp_path / 'asked.json')!r}, 'w'))\n"
    on_path = program(tmp_path / "bin", "llama-quantize", record + f"shutil.copy({str(expected.path)!r}, sys.argv[2])")
    monkeypatch.setenv("PATH", str(on_path.parent))
    result = run(tiny_model("qwen2-tied"), None, tmp_path / "out", "q4_k_m")
    source, destination, level, threads = json.loads((tmp_path / "asked.json").read_text())
    assert (Path(source).name, level) == ("exact.gguf", "Q4_K_M")
    assert int(threads) >= 1
    assert Path(destination).is_relative_to(tmp_path / "out" / "gguf")
    assert left_over(tmp_path / "out") == ["tiny-q4_k_m.gguf"]
    assert (expected.details["quantizer"], result.details["quantizer"]) == ("xllamacpp", "llama-quantize")
    assert result.details["tensor_types"] == Counter(kind for kind, _ in contents(result.path).values())
    assert contents(result.path) == contents(expected.path)
    assert plan_making(load_config(str(tiny_model("qwen2-tied"))), "q8_0").quantizer == "gguf"


@pytest.mark.parametrize("exact", ["f32", "f16", "bf16"])
def test_rounding_a_file_equals_rounding_on_the_way_and_keeps_what_else_is_in_it(
    exact: str, tiny_model: Build, tmp_path: Path
):
    base = tiny_model("llama")
    convert(base, tmp_path / "exact.gguf", exact, "tiny", silent)
    types = requantize(tmp_path / "exact.gguf", tmp_path / "rounded.gguf", "q5_k_m", silent)
    convert(base, tmp_path / "direct.gguf", "q5_k_m", "tiny", silent)
    assert types == Counter(kind for kind, _ in contents(tmp_path / "direct.gguf").values())
    if exact == "f32":
        assert contents(tmp_path / "rounded.gguf") == contents(tmp_path / "direct.gguf")
    fields = [
        {name: field.contents() for name, field in GGUFReader(tmp_path / file).fields.items() if "GGUF" not in name}
        for file in ("rounded.gguf", "direct.gguf")
    ]
    assert fields[0] == fields[1]
