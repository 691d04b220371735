"""The tokenizer of a GGUF file as transformers has it.

Byte-level ones are put together from the file's own vocabulary, merges and the name of their splitting rule, since
transformers' reader forgets the rule (SmolLM's digits one by one, Llama 3's three by three).
"""

from __future__ import annotations

import json
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any, Final

import gguf
from gguf import TokenType
from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.export.gguf.unpacked_config import SPECIAL_TOKENS, Metadata
from rl.lm.text_splitting import PRE_TOKENIZERS

_BYTE_LEVEL = "gpt2"
_NORMALIZED = ("qwen2",)
"""Rules of tokenizers that bring text into Unicode's form NFC first, which llama.cpp does not."""
_ADDED: Final = {TokenType.CONTROL: True, TokenType.UNKNOWN: True, TokenType.USER_DEFINED: False}
"""Kinds of tokens that are looked for in a text before it is split; whether they are special."""


def read_tokenizer(reader: gguf.GGUFReader, file: Path) -> PreTrainedTokenizerBase:
    """Raises UsageError for a splitting rule that is not known, and what the libraries raise."""
    metadata = Metadata(reader)
    if metadata.whole("tokenizer.ggml.model") == _BYTE_LEVEL:
        return _build_byte_level(metadata, file)
    with redirect_stderr(StringIO()):  # gguf draws a bar of its own, whatever the libraries were asked
        return AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, trust_remote_code=False)


def _build_byte_level(metadata: Metadata, file: Path) -> PreTrainedTokenizerFast:
    rule = str(metadata.whole("tokenizer.ggml.pre") or "gpt-2")
    require_known(f"tokenizer.ggml.pre of {file.name}", rule, PRE_TOKENIZERS)
    tokens = metadata.whole("tokenizer.ggml.tokens")
    kinds = metadata.whole("tokenizer.ggml.token_type") or [TokenType.NORMAL] * len(tokens)
    if len(kinds) != len(tokens):
        raise UsageError(f"{file.name} has {len(tokens)} tokens, and says of {len(kinds)} what kind they are")
    ids_by_token = {token: number for number, token in enumerate(tokens) if kinds[number] != TokenType.UNUSED}
    parts = {
        "version": "1.0",
        "normalizer": {"type": "NFC"} if rule in _NORMALIZED else None,
        "pre_tokenizer": PRE_TOKENIZERS[rule],
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "added_tokens": [
            _added_token(token, number, kinds[number])
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


def _added_token(token: str, number: int, kind: int) -> dict[str, Any]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": token, **plain, "special": _ADDED[TokenType(kind)]}
