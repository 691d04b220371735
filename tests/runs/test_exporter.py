"""The calls that export a checkpoint from Python, on real models."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import ExportFailed, UsageError
from rl.export import GGUFExporter, export_to_ollama
from tests.export.llama_cpp.greedy import greedy_tokens
from tests.export.ollama_double import OllamaDouble

pytestmark = pytest.mark.learn


Build = Callable[[str], Path]


@pytest.fixture
def checkpoint(tiny_adapter: Build, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_adapter("qwen2-tied"), tmp_path / "run" / "checkpoint-5")


def test_an_adapter_becomes_a_gguf_file_by_its_own_account_of_its_base_model(checkpoint: Path, tmp_path: Path):
    path = GGUFExporter(checkpoint).export(tmp_path / "out", "my-chat", "q8_0")
    assert path == tmp_path / "out" / "gguf" / "my-chat-q8_0.gguf"
    assert len(greedy_tokens(path, "pump", 4)) == 4
    card = path.with_suffix(".md").read_text()
    assert hashlib.sha256(path.read_bytes()).hexdigest() in card
    assert "| what was trained | LoRA adapter, rank 4, alpha 8, on " in card


def test_the_base_model_can_be_given(checkpoint: Path, tiny_model: Build, tmp_path: Path):
    config = checkpoint / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "base_model_name_or_path": "/gone"}))
    with pytest.raises(UsageError, match="/gone"):
        GGUFExporter(checkpoint).export(tmp_path, "my-chat", "f16")
    assert GGUFExporter(checkpoint, str(tiny_model("qwen2-tied"))).export(tmp_path, "my-chat", "f16").exists()


def test_a_checkpoint_is_exported_beside_itself_and_registered(checkpoint: Path, double: OllamaDouble):
    path = export_to_ollama(checkpoint, "my-chat:new", "q8_0")
    assert path == checkpoint.parent / "gguf" / "my-chat-new-q8_0.gguf"
    served = double.models["my-chat:new"]
    assert list(served["files"].values()) == [f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"]
    assert "<|im_start|>" in served["template"]
    assert "<|im_end|>" in served["parameters"]["stop"]


def test_registering_is_a_choice(checkpoint: Path, double: OllamaDouble):
    assert export_to_ollama(checkpoint, "my-chat", "q8_0", register=False).exists()
    assert double.models == {}


def test_a_name_that_ollama_refuses_and_a_server_that_is_down_are_told_before_any_work(checkpoint: Path, settings: Any):
    settings.OLLAMA_URL = "http://127.0.0.1:9"
    with pytest.raises(UsageError, match="model name"):
        export_to_ollama(checkpoint, "../up")
    with pytest.raises(ExportFailed, match="does not answer"):
        export_to_ollama(checkpoint, "my-chat")
    assert not (checkpoint.parent / "gguf").exists()
