import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from rl.base.errors import ExportFailed, UsageError
from rl.base.export_records import ExportJob, ExportResult
from rl.base.records import silent
from rl.export.hf import lora
from tests.export.tiny_models import build_adapter

pytestmark = pytest.mark.learn

Build = Callable[[str], Path]


def export(base: Path, adapter: Path | None, output: Path) -> ExportResult:
    return lora.export(ExportJob(base_model=str(base), adapter_dir=adapter, output_dir=output, name="tiny"), silent)


def logits(base: Path, adapter: Path) -> torch.Tensor:
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), str(adapter))
    with torch.inference_mode():
        return model(input_ids=torch.tensor([[5, 60, 71, 300, 42]])).logits


def test_the_adapter_is_clean_and_loads(tiny_model: Build, tmp_path: Path):
    base = tiny_model("llama")
    source = build_adapter(tmp_path / "adapter", base)
    for left_over in ("training_args.bin", "optimizer.pt", "ref/adapter_config.json", "ref/adapter_model.safetensors"):
        (source / left_over).parent.mkdir(exist_ok=True)
        (source / left_over).write_bytes(b"x")
    result = export(base, source, tmp_path)
    files = {path.name: path.stat() for path in result.path.iterdir()}
    assert files.keys() == {"adapter_config.json", "adapter_model.safetensors"}
    assert {stat.st_mode & 0o777 for stat in files.values()} == {0o600}
    assert result.path == tmp_path / "lora"
    assert result.quantization == "float32"
    assert result.details == {"size_bytes": sum(stat.st_size for stat in files.values())}
    assert json.loads((result.path / "adapter_config.json").read_text())["base_model_name_or_path"] == str(base)
    assert torch.equal(logits(base, result.path), logits(base, source))


@pytest.mark.parametrize(
    "options", [{"use_dora": True}, {"modules_to_save": ["lm_head"], "target_modules": ["q_proj"]}]
)
def test_what_only_peft_can_express_is_exported_too(options: dict[str, Any], tiny_model: Build, tmp_path: Path):
    base = tiny_model("qwen2-untied")
    source = build_adapter(tmp_path / "adapter", base, **options)
    assert torch.equal(logits(base, export(base, source, tmp_path).path), logits(base, source))


def test_without_an_adapter_there_is_nothing_to_export(tiny_model: Build, tmp_path: Path):
    with pytest.raises(
        UsageError, match="there is no adapter to export, but a whole model: export it as merged or gguf"
    ):
        export(tiny_model("llama"), None, tmp_path)


def test_an_adapter_of_another_base_is_refused(tiny_model: Build, tiny_adapter: Build, tmp_path: Path):
    with pytest.raises(
        ExportFailed, match=r"the adapter .* does not fit .*: base_model\..* has the shape .* instead of"
    ):
        export(tiny_model("qwen3"), tiny_adapter("llama"), tmp_path)


@pytest.mark.parametrize(("content", "what"), [("{", "cannot read"), ("[]", "is not a JSON object")])
def test_a_damaged_adapter_config_is_told_in_one_line(content: str, what: str, tiny_model: Build, tmp_path: Path):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(content)
    (adapter / "adapter_model.safetensors").write_bytes(b"")
    with pytest.raises(ExportFailed, match=what):
        export(tiny_model("llama"), adapter, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def with_weights(directory: Path, like: Path, change: Callable[[Path], None]) -> Path:
    directory.mkdir()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (directory / name).write_bytes((like / name).read_bytes())
    change(directory / "adapter_model.safetensors")
    return directory


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1000])


def not_a_number(file: Path) -> None:
    weights = load_file(file)
    next(iter(weights.values()))[0, 0] = float("nan")
    save_file(weights, file)


def emptied(file: Path) -> None:
    save_file({}, file)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda file: file.write_bytes(b"\x00" * 64), r"cannot read .*adapter_model.safetensors"),
        (cut_short, r"cannot read .*adapter_model.safetensors"),
        (not_a_number, r"the weight base_model\..* holds NaN or infinity"),
        (emptied, r"does not fit .*: 28 weights do not match"),
    ],
)
def test_damaged_adapter_weights_are_told_in_one_line(
    change: Callable[[Path], None], what: str, tiny_model: Build, tiny_adapter: Build, tmp_path: Path
):
    adapter = with_weights(tmp_path / "adapter", tiny_adapter("llama"), change)
    with pytest.raises(ExportFailed, match=what) as caught:
        export(tiny_model("llama"), adapter, tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
