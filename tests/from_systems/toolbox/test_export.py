"""Exporting as ToolBoxV2's documents call it."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.from_systems.toolbox import (
    ExportPipeline,
    GGUFExporter,
    GGUFQuantization,
    OllamaDeployer,
    OllamaHostingProfile,
    get_recommended_quantization,
    quick_export,
)
from rl.from_systems.toolbox.ollama import VARIABLE
from tests.export.ollama_double import OllamaDouble

Build = Callable[[str], Path]


@pytest.fixture
def model(tiny_model: Build, tmp_path: Path) -> Path:
    """A link, so that what is written beside it is the test's."""
    folder = tmp_path / "merged-model"
    folder.symlink_to(tiny_model("qwen2-tied"), target_is_directory=True)
    return folder


def test_levels_have_capital_names_and_bits():
    levels = GGUFQuantization.available()
    assert {name: level.bits for name, level in levels.items()} == {
        "Q2_K": 2.5,
        "Q3_K_M": 3.5,
        "Q4_K_M": 4.5,
        "Q5_K_M": 5.5,
        "Q6_K": 6.5,
        "Q8_0": 8.0,
        "F16": 16.0,
    }
    assert levels["Q4_K_M"].recommended_for


@pytest.mark.parametrize(
    ("ram", "level"), [(64, "Q8_0"), (32, "Q8_0"), (16, "Q6_K"), (8, "Q4_K_M"), (4, "Q3_K_M"), (2, "Q2_K")]
)
def test_the_level_goes_by_the_memory(ram: float, level: str):
    assert get_recommended_quantization(ram) == level
    assert GGUFExporter("x").get_recommended_quantization(ram) == level


@pytest.mark.learn
def test_a_model_becomes_a_file_of_its_name_and_level(model: Path, tmp_path: Path):
    path = Path(GGUFExporter(model).convert("Q8_0"))
    assert path == tmp_path / "gguf" / "merged-model-Q8_0.gguf"
    assert path.read_bytes()[:4] == b"GGUF"
    assert "merged-model-Q8_0.gguf" in path.with_suffix(".md").read_text()
    assert sorted(file.suffix for file in path.parent.glob("merged-model-Q8_0.*")) == [".gguf", ".json", ".md"]
    assert len(list(path.parent.iterdir())) == 3
    named = GGUFExporter(model, output_dir=tmp_path / "out").convert(quantization="f16", output_name="mine.gguf")
    assert named == str(tmp_path / "out" / "mine.gguf")


@pytest.mark.learn
def test_what_cannot_be_exported_is_told_before_any_work(model: Path, tmp_path: Path):
    with pytest.raises(UsageError, match="unknown quantization"):
        GGUFExporter(model).convert("Q9")
    with pytest.raises(UsageError):
        GGUFExporter(tmp_path / "nowhere").convert()


@pytest.mark.learn
def test_a_checkout_of_llama_cpp_is_named_for_the_export_alone(model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, "/before")
    with pytest.raises(Exception, match="/nowhere"):
        GGUFExporter(model, llama_cpp_path="/nowhere").convert()
    assert os.environ[VARIABLE] == "/before"


def test_a_hosting_profile_needs_no_name():
    profile = OllamaHostingProfile(num_parallel=4, num_ctx=4096, num_thread=14)
    assert profile.to_env() == {
        "OLLAMA_NUM_PARALLEL": "4",
        "OLLAMA_MAX_LOADED_MODELS": "2",
        "OLLAMA_NUM_THREAD": "14",
    }
    assert OllamaHostingProfile("x", flash_attn=True).to_env()["OLLAMA_FLASH_ATTENTION"] == "1"


@pytest.mark.learn
def test_a_file_is_served_by_its_own_template(model: Path, double: OllamaDouble):
    path = GGUFExporter(model).convert("F16")
    deployer = OllamaDeployer()
    assert deployer.create_model("toolbox-agent", path, "Be brief.", temperature=0.2, num_ctx=2048) == "toolbox-agent"
    served = double.models["toolbox-agent:latest"]
    assert "<|im_start|>" in served["template"]
    assert (served["system"], served["parameters"]["temperature"], served["parameters"]["num_ctx"]) == (
        "Be brief.",
        0.2,
        2048,
    )
    assert [entry["name"] for entry in deployer.list_models()] == ["toolbox-agent:latest"]
    assert deployer.run_model("toolbox-agent", "Hello").startswith(" and and")
    with pytest.raises(RuntimeError, match="not found"):
        deployer.run_model("nobody", "Hello")
    assert deployer.delete_model("toolbox-agent") is True
    assert deployer.delete_model("toolbox-agent") is False


@pytest.mark.process
def test_profiles_are_those_of_toolbox(double: OllamaDouble):
    deployer = OllamaDeployer()
    assert deployer.get_ryzen_profile() == OllamaHostingProfile("ryzen_optimized", 4, 4096, num_thread=14)
    assert deployer.get_auto_profile().num_parallel >= 1


@pytest.mark.process
def test_a_modelfile_says_what_it_is_told(double: OllamaDouble):
    text = OllamaDeployer().create_modelfile("/models/a.gguf", "Be brief.", 0.5, 1024, ["<end>"])
    assert text.splitlines() == [
        "FROM /models/a.gguf",
        'SYSTEM """Be brief."""',
        "PARAMETER temperature 0.5",
        "PARAMETER num_ctx 1024",
        'PARAMETER stop "<end>"',
    ]


def test_without_ollama_it_is_told_at_once(settings: Any):
    settings.OLLAMA_URL = "http://127.0.0.1:9"
    with pytest.raises(RuntimeError, match="ollama serve"):
        OllamaDeployer()


@pytest.mark.learn
def test_the_whole_export_in_one_call(model: Path, tmp_path: Path, double: OllamaDouble):
    results = ExportPipeline(model, "my-agent").run("F16", "Be brief.", "ryzen")
    assert results["success"] is True, results["traceback"]
    assert (results["ollama_model"], results["hosting_profile"]["num_thread"]) == ("my-agent", 14)
    assert results["gguf_path"] == str(tmp_path / "export" / "merged-model-F16.gguf")
    assert json.loads((tmp_path / "export" / "export_results.json").read_text())["success"] is True
    assert quick_export(model, "quick", "F16") == "quick"
    with pytest.raises(RuntimeError, match="unknown quantization"):
        quick_export(model, "quick", "Q9")
