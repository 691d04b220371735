"""A MiniMind checkpoint, from its folder to a file that llama.cpp runs."""

import json
from pathlib import Path

import pytest
from gguf import GGUFReader
from safetensors.torch import save_file
from transformers import AutoTokenizer

from rl.base.export_records import ExportJob
from rl.base.records import silent
from rl.export.gguf import export as gguf
from rl.export.gguf import lora as gguf_lora
from tests.export.tiny_models import build_adapter, byte_level_tokenizer
from tests.training.minimind_reference import CONFIG, random_weights

pytestmark = pytest.mark.learn


def minimind(folder: Path, normalised: bool) -> Path:
    """With the byte-level tokenizer that MiniMind trains, and as it saves it: by the class of transformers 4."""
    tokenizer = byte_level_tokenizer("gpt-2")
    tokenizer.save_pretrained(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": False, "add_prefix_space": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    save_file(random_weights(len(tokenizer), normalised), folder / "model.safetensors", {"format": "pt"})
    ids = {"bos_token_id": 1, "eos_token_id": tokenizer.eos_token_id}
    (folder / "config.json").write_text(json.dumps({**CONFIG, **ids, "vocab_size": len(tokenizer)}))
    return folder


@pytest.mark.parametrize(("normalised", "architecture"), [(False, "llama"), (True, "qwen3")])
def test_minimind_runs_in_llama_cpp_whole_and_as_an_adapter(normalised: bool, architecture: str, tmp_path: Path):
    base = minimind(tmp_path / "minimind", normalised)
    adapter = build_adapter(tmp_path / "adapter", base)
    job = ExportJob(str(base), adapter, tmp_path / "out", "mini", "f16")
    result = gguf.export(job, silent)
    assert result.details["self_check"]["mean_kl"] < 1e-3
    fields = GGUFReader(result.path).fields
    assert fields["general.architecture"].contents() == architecture
    assert fields["tokenizer.ggml.pre"].contents() == "gpt-2"
    assert fields["tokenizer.ggml.tokens"].contents()[5] == AutoTokenizer.from_pretrained(base).convert_ids_to_tokens(5)
    figures = gguf_lora.export(job, silent).details["self_check"]
    assert figures["mean_kl"] < 1e-3 < figures["adapter_kl"]
