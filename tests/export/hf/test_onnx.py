from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import onnxruntime
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from rl.base.errors import ExportFailed
from rl.base.export_records import ExportJob
from rl.base.records import silent
from rl.export.hf import onnx
from rl.export.hf.loading import load_merged

Build = Callable[[str], Path]
pytestmark = [pytest.mark.learn, pytest.mark.slow]


@pytest.fixture(scope="module")
def exported(tiny_model: Build, tiny_adapter: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    job = ExportJob(str(tiny_model("qwen2-tied")), tiny_adapter("qwen2-tied"), tmp_path_factory.mktemp("onnx"), "tiny")
    result = onnx.export(job, silent)
    assert (result.path, result.quantization) == (job.output_dir / "onnx", "f32")
    assert result.details["exporter"] == "transformers"
    assert result.details["self_check"]["shapes"] == 3
    assert result.details["self_check"]["max_logit_difference"] < 1e-3
    return result.path


@pytest.fixture(scope="module")
def merged(tiny_model: Build, tiny_adapter: Build) -> Any:
    return load_merged(str(tiny_model("qwen2-tied")), tiny_adapter("qwen2-tied")).eval()


def test_the_folder_has_all_that_is_needed_to_answer_with_it(exported: Path, merged: Any):
    assert AutoConfig.from_pretrained(exported).use_cache
    assert GenerationConfig.from_pretrained(exported).eos_token_id == merged.config.eos_token_id
    prompt = AutoTokenizer.from_pretrained(exported)("Which widget should", return_tensors="np")
    session = onnxruntime.InferenceSession(exported / "model.onnx")
    ids = prompt["input_ids"]
    for _ in range(8):
        logits = session.run(["logits"], {"input_ids": ids, "attention_mask": numpy.ones_like(ids)})[0]
        ids = numpy.append(ids, logits[:, -1:].argmax(-1), axis=1)
    right = merged.generate(torch.tensor(prompt["input_ids"]), max_new_tokens=8, do_sample=False, eos_token_id=None)
    assert ids.tolist() == right.tolist()


def test_weights_are_beside_the_graph_so_that_they_may_be_of_any_size(exported: Path):
    assert (exported / "model.onnx.data").stat().st_size > 4e6 > 1e6 > (exported / "model.onnx").stat().st_size


def test_another_model_under_the_graphs_name_is_found_out(exported: Path, tiny_model: Build):
    other = AutoModelForCausalLM.from_pretrained(tiny_model("qwen2-tied")).eval()
    with pytest.raises(ExportFailed, match=r"does not behave like the model: for 1 x 7 tokens a logit differs by"):
        onnx.check(other, exported / "model.onnx")


def test_a_file_that_is_no_model_is_one_clear_error(merged: Any, tmp_path: Path):
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(ExportFailed, match="onnxruntime cannot load the exported model") as caught:
        onnx.check(merged, tmp_path / "model.onnx")
    assert "\n" not in str(caught.value)


def test_pytorchs_own_exporter_takes_over_quietly_where_that_of_transformers_fails(
    tiny_model: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    def fail(*_: object) -> None:
        raise KeyError("no such operator")

    monkeypatch.setattr(onnx, "_by_transformers", fail)
    told: list[dict[str, Any]] = []
    job = ExportJob(str(tiny_model("gpt2")), None, tmp_path, "tiny")
    result = onnx.export(job, lambda event, values: told.append(values))
    assert result.details["exporter"] == "torch.onnx"
    assert any("because the exporter of transformers failed: 'no such operator'" in v.get("text", "") for v in told)
    assert "onnx" not in capfd.readouterr().out


def test_a_model_that_neither_exporter_can_express_leaves_nothing(
    tiny_model: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise RuntimeError("data-dependent control flow\nand a long story")

    monkeypatch.setattr(onnx, "_by_transformers", fail)
    monkeypatch.setattr(onnx, "_by_torch", fail)
    with pytest.raises(ExportFailed, match="cannot be exported as ONNX; export merged instead: data-dependent control"):
        onnx.export(ExportJob(str(tiny_model("gpt2")), None, tmp_path, "tiny"), silent)
    assert list(tmp_path.iterdir()) == []
