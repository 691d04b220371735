"""evaluate_model and export_model on one trained version."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rl.export.llama_process import greedy_tokens
from tests.commands.site import Site

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(prepared_site: Site, tmp_path_factory) -> Site:
    site = prepared_site.copy(tmp_path_factory.mktemp("trained") / "data")
    site.run("train_dpo", "--agent", "support-chat", "--val-split", "0.3", "--epochs", "3")
    return site


def adapter(site: Site) -> Path:
    return next((site.data / "models" / "support-chat").glob("v*/adapter"))


def test_a_version_is_measured_beside_its_base(trained, tmp_path):
    report = tmp_path / "results.json"
    document = trained.json("evaluate_model", "--agent", "support-chat", "--compare-base", "--output", str(report))
    assert json.loads(report.read_text()) == document
    models = document["models"]
    assert models["new"]["accuracy"]["value"] > 0.85 > 0.65 > models["base"]["accuracy"]["value"]
    assert models["new"]["accuracy"]["low"] < models["new"]["accuracy"]["value"]
    assert document["verdict"] == "promote"
    assert len(document["worst"]) == 10
    assert set(document["worst"][0]) == {"margin", "prompt", "chosen", "rejected"}


def test_a_checkpoint_is_measured_like_a_version(trained):
    document = trained.json(
        "evaluate_model", "--agent", "support-chat", "--checkpoint", str(adapter(trained)), "--compare-base"
    )
    assert document["models"]["new"]["accuracy"]["value"] > 0.85


def test_the_version_in_use_compared_with_itself_is_undecided(trained):
    document = trained.json("evaluate_model", "--agent", "support-chat", "--checkpoint", str(adapter(trained)))
    assert document["verdict"] == "undecided"
    assert document["ratings_needed"] is None or document["ratings_needed"] > 0


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("--agent", "support-chat", "--version", "v9999"), 2, "has no version 'v9999'; there are: v"),
        (("--agent", "support-chat", "--checkpoint", "/nowhere"), 2, "is no adapter"),
        (("--agent", "nobody"), 2, "no agent is named 'nobody'"),
        (("--agent", "support-chat", "--output", "/nowhere/report.json"), 2, "there is no directory /nowhere"),
        (("--agent", "support-chat", "--output", "/"), 2, "is a directory"),
    ],
)
def test_what_cannot_be_measured_is_one_clear_error(trained, arguments, code, complaint):
    result = trained.run("evaluate_model", *arguments, expect=code)
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("level", ["f16", "q8_0", "q4_k_m"])
def test_a_gguf_is_written_that_llama_cpp_loads(trained, level):
    document = trained.json("export_model", "--agent", "support-chat", "--quantization", level)
    path = Path(document["path"])
    assert path.suffix == ".gguf"
    assert len(greedy_tokens(path, "Where is my parcel?", 8)) == 8
    assert trained.query("SELECT size_bytes FROM rl_artifact WHERE quantization = ?", level) == [(path.stat().st_size,)]


def test_the_figures_of_an_export_are_words_for_people(trained):
    told = trained.run("export_model", "--agent", "support-chat", "--format", "lora").stdout
    assert "tensor_types: F16 28" in told
    assert "{" not in told


@pytest.mark.parametrize(("kind", "file"), [("merged", "model.safetensors"), ("lora", "adapter_model.safetensors")])
def test_directories_are_exported_too(trained, kind, file):
    document = trained.json("export_model", "--agent", "support-chat", "--format", kind)
    assert (Path(document["path"]) / file).exists()


def test_a_checkpoint_is_exported_under_the_given_name(trained, tmp_path):
    document = trained.json(
        "export_model", "--checkpoint", str(adapter(trained)), "--model-name", "my-chat", "--output", str(tmp_path)
    )
    assert Path(document["path"]) == tmp_path / "gguf" / "my-chat-f16.gguf"


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("--agent", "support-chat", "--quantization", "q9"), 2, "q9"),
        (("--agent", "support-chat", "--model-name", "../up"), 2, "model name"),
        ((), 2, "say what to export"),
        (("--checkpoint", "/nowhere"), 2, "is no adapter"),
    ],
)
def test_what_cannot_be_exported_is_one_clear_error(trained, arguments, code, complaint):
    result = trained.run("export_model", *arguments, expect=code)
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr


def test_a_whole_model_is_trained_measured_and_exported(site: Site):
    chosen = ("--full", "--learning-rate", "1e-4", "--val-split", "0.3", "--epochs", "3")
    document = site.json("train_dpo", "--agent", "support-chat", *chosen, "--export", "--quantization", "f16")
    artifacts = document["artifacts"]
    assert artifacts.keys() == {"model", "gguf"}
    assert document["evaluation"]["models"]["new"]["accuracy"]["value"] > 0.85
    assert len(greedy_tokens(site.data / artifacts["gguf"], "Where is my parcel?", 8)) == 8


def test_an_adapter_without_its_base_model_is_refused(trained, tmp_path):
    lost = tmp_path / "lost"
    shutil.copytree(adapter(trained), lost)
    config = json.loads((lost / "adapter_config.json").read_text())
    (lost / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": str(tmp_path / "gone")}))
    result = trained.run("export_model", "--checkpoint", str(lost), "--output", str(tmp_path), expect=2)
    assert "gone" in result.stderr
    assert not list(tmp_path.glob("gguf/*"))
