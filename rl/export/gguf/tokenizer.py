"""A Hugging Face tokenizer as GGUF metadata: vocabulary, merges, special tokens, chat template.

Two kinds can be expressed: byte-level BPE (GPT-2, Qwen, Llama 3), whose splitting rule llama.cpp knows by name, and
SentencePiece-like BPE (Llama 2, Mistral, Gemma). Any other would be tokenised differently by llama.cpp, and is refused."""

import json
from pathlib import Path
from typing import Any

import gguf
from gguf import TokenType

from rl.base.errors import ExportFailed, UsageError
from rl.base.template_settings import DATE
from rl.lm.chat.template import ChatTemplate, TemplateRefused, answer_form
from rl.lm.text_splitting import REGEXES

_NAME_OF_REGEX = {regex: name for name, regex in REGEXES.items()}
_SPACE = "▁"
_SPLIT_AT_SPACES = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
"""Gemma's. There are no spaces left when it is reached."""
_BYTE_PIECES = frozenset(f"<0x{value:02X}>" for value in range(256))
_PROBE_CHAT = [{"role": "user", "content": "hello"}]


def write_tokenizer(writer: gguf.GGUFWriter, model_dir: Path, tokenizer: Any, rows: int, model_eos: object) -> None:
    """``rows``: of the embedding matrix, which may be more than the vocabulary. ``model_eos``: the configured id or ids.
    Raises ExportFailed for a tokenizer that llama.cpp cannot reproduce."""
    parts = _read(model_dir)
    if _is_byte_level(parts):
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre_tokenizer_name(parts))
        _write_vocabulary(writer, parts, rows)
        writer.add_token_merges(_merges(parts))
    else:
        writer.add_tokenizer_model("llama")
        _check_sentencepiece(parts)
        vocabulary = _write_vocabulary(writer, parts, rows)
        # llama.cpp merges the highest score first: a piece scores minus the rank of the merge that makes it
        rank: dict[str, int] = {}
        for position, merge in enumerate(_merges(parts)):
            rank.setdefault("".join(merge.split(" ")), position)
        writer.add_token_scores([-float(rank.get(text, len(rank))) for text in vocabulary])
        steps = _steps(parts["normalizer"]) + _steps(parts["pre_tokenizer"])
        writer.add_add_space_prefix(
            any(step["type"] == "Prepend" or step.get("prepend_scheme", "never") != "never" for step in steps)
        )
    _write_special_tokens(writer, tokenizer, model_eos)


def starts_with_bos(tokenizer: Any) -> bool:
    """Whether a prompt begins with BOS. llama.cpp adds one where this is true, so a rendered template must decide it."""
    if tokenizer.bos_token is None:
        return False
    if tokenizer.chat_template:
        return render_chat(tokenizer, _PROBE_CHAT).startswith(str(tokenizer.bos_token))
    return bool(tokenizer("hello")["input_ids"][:1] == [tokenizer.bos_token_id])


def render_chat(tokenizer: Any, messages: list[dict[str, str]]) -> str:
    """The prompt that the messages are trained with. Raises ExportFailed where the chat template refuses them."""
    try:
        return ChatTemplate(tokenizer).render(messages, opening=True)
    except (TemplateRefused, UsageError) as error:
        raise ExportFailed(f"the model's chat template cannot render a chat: {error}") from error


def pre_tokenizer_name(parts: dict[str, Any]) -> str:
    """llama.cpp's name for how a byte-level tokenizer splits text before merging; ``parts`` is tokenizer.json. Decided by
    the rule itself: a hash over probe texts, the usual way, knows no vocabulary trained at home."""
    steps = _steps(parts["pre_tokenizer"])
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"] and steps[0].get("use_regex", True):
        return "gpt-2"
    if kinds == ["Digits", "ByteLevel"] and steps[0]["individual_digits"] and steps[1].get("use_regex", True):
        return "smollm"
    if kinds == ["Split", "ByteLevel"] and not steps[1].get("use_regex", True):
        split = steps[0]
        regex = split["pattern"].get("Regex", "")
        if split["behavior"] == "Isolated" and not split["invert"] and regex in _NAME_OF_REGEX:
            return _NAME_OF_REGEX[regex]
        raise ExportFailed(f"llama.cpp has no splitting rule known here for this tokenizer's regex {regex!r}")
    raise ExportFailed(f"llama.cpp has no splitting rule known here for a tokenizer that splits by {', '.join(kinds)}")


def _read(model_dir: Path) -> dict[str, Any]:
    path = model_dir / "tokenizer.json"
    if not path.is_file():
        raise ExportFailed("the model has no tokenizer.json (no fast tokenizer), which a GGUF export needs")
    try:
        parts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        kind = parts["model"]["type"]
        if kind == "BPE" and not _is_whole(parts):
            raise ValueError("its entries have other types than a tokenizer's")
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise ExportFailed(f"the model's tokenizer.json cannot be read: {error!r}") from error
    if kind != "BPE":
        raise ExportFailed(f"no GGUF export for a tokenizer of the kind {kind}; supported: BPE")
    return parts


def _is_whole(parts: dict[str, Any]) -> bool:
    """Raises KeyError, TypeError or AttributeError for a file that lacks what is needed."""
    model, steps = parts["model"], _steps(parts["normalizer"]) + _steps(parts["pre_tokenizer"])
    return (
        all(isinstance(step["type"], str) for step in steps)
        and all(isinstance(text, str) and isinstance(number, int) for text, number in model["vocab"].items())
        and all(isinstance(merge, (str, list)) for merge in model["merges"])
        and all(isinstance(token["id"], int) and isinstance(token["content"], str) for token in parts["added_tokens"])
    )


def _is_byte_level(parts: dict[str, Any]) -> bool:
    byte_steps = [step for step in _steps(parts["pre_tokenizer"]) if step["type"] == "ByteLevel"]
    if not byte_steps:
        return False
    normalizers = [step["type"] for step in _steps(parts["normalizer"])]
    if any(kind != "NFC" for kind in normalizers):
        raise ExportFailed(f"llama.cpp does not normalise text with {', '.join(normalizers)} before byte-level BPE")
    if byte_steps[0].get("add_prefix_space"):
        raise ExportFailed("llama.cpp does not put a space before byte-level BPE text (add_prefix_space)")
    return True


def _check_sentencepiece(parts: dict[str, Any]) -> None:
    steps = [step for step in _steps(parts["normalizer"]) + _steps(parts["pre_tokenizer"]) if step != _SPLIT_AT_SPACES]
    kinds = {step["type"] for step in steps}
    if not parts["model"].get("byte_fallback") or not kinds <= {"Prepend", "Replace", "Metaspace"}:
        raise ExportFailed(
            f"no GGUF export for a BPE tokenizer with the steps {', '.join(sorted(kinds)) or 'none'}; "
            "supported: byte-level, and SentencePiece-like with byte fallback"
        )
    replacements = [(step["pattern"], step["content"]) for step in steps if step["type"] == "Replace"]
    others = [replacement for replacement in replacements if replacement != ({"String": " "}, _SPACE)]
    if others or not (replacements or "Metaspace" in kinds):
        raise ExportFailed(
            f"llama.cpp does nothing to text but write spaces as {_SPACE}; this tokenizer does otherwise"
        )


def _steps(part: dict[str, Any] | None) -> list[dict[str, Any]]:
    """A normalizer or pre-tokenizer as the list of its steps."""
    if part is None:
        return []
    if part["type"] != "Sequence":
        return [part]
    inner: list[dict[str, Any]] = part.get("pretokenizers") or part.get("normalizers") or []
    return inner


def _write_vocabulary(writer: gguf.GGUFWriter, parts: dict[str, Any], rows: int) -> list[str]:
    """Rows of the embedding matrix that no token uses are filled up; returns the texts by id."""
    tokens = [f"[PAD{row}]" for row in range(rows)]
    types = [TokenType.UNUSED] * rows
    added = {entry["id"]: entry for entry in parts["added_tokens"]}
    ids = {number: text for text, number in parts["model"]["vocab"].items()}
    ids.update({number: entry["content"] for number, entry in added.items()})
    if ids and max(ids) >= rows:
        raise ExportFailed(f"the tokenizer has ids up to {max(ids)}, but the model embeds only {rows} tokens")
    for number, text in ids.items():
        tokens[number] = text
        types[number] = _token_type(text, added.get(number), parts)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    return tokens


def _token_type(text: str, added: dict[str, Any] | None, parts: dict[str, Any]) -> TokenType:
    if added is not None and text == parts["model"].get("unk_token"):
        return TokenType.UNKNOWN
    if added is not None:
        return TokenType.CONTROL if added["special"] else TokenType.USER_DEFINED
    if parts["model"].get("byte_fallback") and text in _BYTE_PIECES:
        return TokenType.BYTE
    return TokenType.NORMAL


def _merges(parts: dict[str, Any]) -> list[str]:
    """Newer files hold pairs, older ones a string with a space between; byte-level pieces contain no space."""
    return [merge if isinstance(merge, str) else " ".join(merge) for merge in parts["model"]["merges"]]


def _write_special_tokens(writer: gguf.GGUFWriter, tokenizer: Any, model_eos: object) -> None:
    configured = model_eos if isinstance(model_eos, list) else [model_eos]
    written = [answer_form(tokenizer).end_id] if tokenizer.chat_template and tokenizer.eos_token else []
    ends = [number for number in (tokenizer.eos_token_id, *written, *configured) if number is not None]
    if not ends:
        raise ExportFailed("neither the tokenizer nor the model names an end-of-text token; generation would not stop")
    writer.add_eos_token_id(ends[0])
    if others := [number for number in ends if number != ends[0]]:
        writer.add_eot_token_id(others[0])
    if tokenizer.bos_token_id is not None:
        writer.add_bos_token_id(tokenizer.bos_token_id)
    if tokenizer.pad_token_id is not None:
        writer.add_pad_token_id(tokenizer.pad_token_id)
    if tokenizer.unk_token_id is not None:
        writer.add_unk_token_id(tokenizer.unk_token_id)
    writer.add_add_bos_token(starts_with_bos(tokenizer))
    writer.add_add_eos_token(False)
    if tokenizer.chat_template:
        template = tokenizer.get_chat_template()
        if "date_string" in template:
            # llama.cpp would fill in the day on which it answers, not the date of the training
            template = f'{{%- set date_string = "{DATE}" -%}}{template}'
        writer.add_chat_template(template)
