"""How byte-level tokenizers split text before merging: llama.cpp knows each rule by a name, tokenizer.json by its parts."""

from collections.abc import Mapping
from typing import Any, Final

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_BYTES: Final = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
_BYTES_OF_GPT2: Final = {**_BYTES, "use_regex": True}
REGEXES: Final[Mapping[str, str]] = {
    "llama-bpe": _CONTRACTIONS + r"\p{N}{1,3}" + _REST,
    "qwen2": _CONTRACTIONS + r"\p{N}" + _REST,
}
"""llama.cpp's name of a way to split text, to its regular expression."""


def _split_by(regex: str) -> dict[str, Any]:
    split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, _BYTES]}


PRE_TOKENIZERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "gpt-2": _BYTES_OF_GPT2,
    "smollm": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, _BYTES_OF_GPT2]},
    **{name: _split_by(regex) for name, regex in REGEXES.items()},
}
"""llama.cpp's name of a way to split text, to ``pre_tokenizer`` as tokenizer.json writes it."""
