"""A GGUF file as a folder with safetensors that can be trained: the way back from what ``convert`` writes.

What was lost when the file was quantised stays lost. transformers' own reader is not used for weights and configuration:
it forgets Llama 3's stretched rope, shifts Gemma's norms twice and refuses heads that are wider than usual."""

import json
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np
import torch
from gguf import TokenType
from tokenizers import Tokenizer, normalizers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from rl.base.disk_space import shortage
from rl.base.errors import ExportFailed, UsageError
from rl.base.files import staged_directory, write_text
from rl.base.names import require_known
from rl.base.records import Report
from rl.export.gguf.architectures import gguf_name, restore
from rl.export.gguf.unpacked_config import SPECIAL_TOKENS, Metadata, read_architecture, read_config
from rl.export.gguf_header import open_gguf
from rl.lm.chat.template_trial import require_modest
from rl.lm.loading import quiet
from rl.lm.reading import errors_as
from rl.lm.text_splitting import PRE_TOKENIZERS

_BYTES_PER_WEIGHT = 2
_BYTE_LEVEL = "gpt2"
_NORMALIZED = ("qwen2",)
"""Rules of tokenizers that bring text into Unicode's form NFC first, which llama.cpp does not."""
_ADDED: Final = {TokenType.CONTROL: True, TokenType.UNKNOWN: True, TokenType.USER_DEFINED: False}
"""Kinds of tokens that are looked for in a text before it is split; whether they are special."""


def unpack(file: Path, target_dir: Path, report: Report) -> Path:
    """Writes ``target_dir`` (bfloat16 weights, tokenizer, chat template), which appears whole or not at all; returns it.
    Raises BadFile for a file that is not GGUF, and UsageError for an architecture or a tokenizer that is not supported, for
    a tensor that is missing or unknown, and for too little room."""
    quiet()
    reader = open_gguf(file)
    with errors_as(UsageError, f"{file} cannot be unpacked"):
        read_architecture(reader, file.name)
        config = read_config(reader)  # transformers' reader of tokenizers believes it
    target_dir.parent.mkdir(parents=True, exist_ok=True)
    weights = sum(int(tensor.n_elements) for tensor in reader.tensors)
    if problem := shortage(target_dir.parent, weights * _BYTES_PER_WEIGHT):
        raise UsageError(f"the model does not fit: {problem}")
    report("stage", {"name": f"unpacking {file.name}"})
    with staged_directory(target_dir) as unfinished, errors_as(UsageError, f"{file} cannot be unpacked"):
        tokenizer = read_tokenizer(reader, file)
        require_modest(tokenizer.chat_template, file, UsageError)
        tokenizer.save_pretrained(unfinished)
        _read_model(reader, config, report).save_pretrained(unfinished)
        fields: dict[str, Any] = {
            name: field.contents() for name in ("name", "license") if (field := reader.get_field(f"general.{name}"))
        }
        head = f"---\nlicense: {fields['license']}\n---\n\n" if "license" in fields else ""
        write_text(unfinished / "README.md", f"{head}# {fields.get('name', file.stem)}\n\nUnpacked from {file.name}.\n")
    return target_dir


def _read_model(reader: gguf.GGUFReader, config: PretrainedConfig, report: Report) -> PreTrainedModel:
    """In bfloat16. Raises ValueError for a file that lacks a tensor or has one too many."""
    architecture = read_architecture(reader)
    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    tensors = {tensor.name: tensor for tensor in reader.tensors if tensor.name != "rope_freqs.weight"}
    sources = [name for name in model.state_dict() if not (config.tie_word_embeddings and name == "lm_head.weight")]
    weights: dict[str, torch.Tensor] = {}
    for done, source in enumerate(sources, start=1):
        try:
            tensor = tensors.pop(gguf_name(architecture, config, source))
        except (KeyError, ExportFailed) as error:
            raise ValueError(f"it has no tensor for {source}") from error
        values = restore(gguf.quants.dequantize(tensor.data, tensor.tensor_type), source, architecture, config)
        weights[source] = torch.from_numpy(np.require(values, requirements="W")).to(torch.bfloat16)
        report("step", {"step": done, "total_steps": len(sources), "metrics": {}})
    if tensors:
        raise ValueError(f"the tensor {min(tensors)} has no counterpart in {type(model).__name__}")
    model.load_state_dict(weights, strict=False, assign=True)
    model.tie_weights()
    return model


def read_tokenizer(reader: gguf.GGUFReader, file: Path) -> PreTrainedTokenizerBase:
    """Raises UsageError for a splitting rule that is not known, and what the libraries raise."""
    metadata = Metadata(reader)
    if metadata.whole("tokenizer.ggml.model") == _BYTE_LEVEL:
        return _build_byte_level(metadata, file)
    with redirect_stderr(StringIO()):  # gguf draws a bar of its own, whatever the libraries were asked
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, trust_remote_code=False)
    # SentencePiece's vocabularies are read by llama.cpp with a space before each text, unless the file says otherwise
    prefixes = metadata.whole("tokenizer.ggml.add_space_prefix") is not False
    if prefixes and metadata.whole("tokenizer.ggml.model") == "llama":
        # also where the text begins with a space, which transformers' reader leaves as it is
        backend = tokenizer.backend_tokenizer
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        document = {**json.loads(backend.to_str()), "pre_tokenizer": None}
        names = {name: str(token) for name, token in tokenizer.special_tokens_map.items() if isinstance(token, str)}
        whole = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(document)), **names)
        whole.chat_template, whole.model_max_length = tokenizer.chat_template, tokenizer.model_max_length
        return whole
    return tokenizer


def _build_byte_level(metadata: Metadata, file: Path) -> PreTrainedTokenizerFast:
    """From the file's own vocabulary, merges and the name of their splitting rule: transformers' reader forgets the rule
    (SmolLM's digits one by one, Llama 3's three by three)."""
    rule = str(metadata.whole("tokenizer.ggml.pre") or "gpt-2")
    require_known(f"tokenizer.ggml.pre of {file.name}", rule, PRE_TOKENIZERS)
    tokens = metadata.whole("tokenizer.ggml.tokens")
    kinds = metadata.whole("tokenizer.ggml.token_type") or [TokenType.NORMAL] * len(tokens)
    if len(kinds) != len(tokens):
        raise UsageError(f"{file.name} has {len(tokens)} tokens, and says of {len(kinds)} what kind they are")
    ids_by_token = {token: number for number, token in enumerate(tokens) if kinds[number] != TokenType.UNUSED}
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    parts = {
        "version": "1.0",
        "normalizer": {"type": "NFC"} if rule in _NORMALIZED else None,
        "pre_tokenizer": PRE_TOKENIZERS[rule],
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "added_tokens": [
            {"id": number, "content": token, **plain, "special": _ADDED[TokenType(kinds[number])]}
            for token, number in ids_by_token.items()
            if kinds[number] in _ADDED
        ],
        "model": {"type": "BPE", "vocab": ids_by_token, "merges": metadata.whole("tokenizer.ggml.merges")},
    }
    special_ids = {name: metadata.whole(f"tokenizer.ggml.{key}_token_id") for name, key in SPECIAL_TOKENS.items()}
    if wrong := [name for name, number in special_ids.items() if number is not None and not 0 <= number < len(tokens)]:
        raise UsageError(f"{file.name} has no token of the number that it gives for {wrong[0]}")
    names = {f"{name}_token": tokens[number] for name, number in special_ids.items() if number is not None}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(parts)), **names)
    tokenizer.chat_template = metadata.whole("tokenizer.chat_template")
    if context := metadata.get("context_length"):
        tokenizer.model_max_length = int(context)
    return tokenizer
