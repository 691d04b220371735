import json
from pathlib import Path
from typing import Any

import gguf
import pytest
from transformers import PreTrainedTokenizerFast

from rl.base.errors import ExportFailed
from rl.export.gguf.tokenizer import pre_tokenizer_name, starts_with_bos, write_tokenizer
from tests.export.tiny_models import SPLITS, byte_level_tokenizer, gemma_tokenizer, sentencepiece_like_tokenizer

pytestmark = pytest.mark.learn


def parts_of(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    return json.loads(tokenizer.backend_tokenizer.to_str())


def written(tokenizer: PreTrainedTokenizerFast, tmp_path: Path, model_eos: object = None) -> dict[str, Any]:
    """What a GGUF file says about the tokenizer."""
    tokenizer.save_pretrained(tmp_path)
    writer = gguf.GGUFWriter(tmp_path / "vocabulary.gguf", "llama")
    write_tokenizer(writer, tmp_path, tokenizer, len(tokenizer) + 3, model_eos)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    fields = gguf.GGUFReader(tmp_path / "vocabulary.gguf").fields
    return {name.removeprefix("tokenizer.ggml."): field.contents() for name, field in fields.items()}


@pytest.mark.parametrize("name", ["gpt-2", "smollm", "qwen2", "llama-bpe"])
def test_the_splitting_rule_is_known_by_what_it_does(name: str):
    assert pre_tokenizer_name(parts_of(byte_level_tokenizer(name))) == name


def test_an_unknown_splitting_regex_is_refused_and_named():
    parts = parts_of(byte_level_tokenizer("qwen2"))
    parts["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = r"\w+"
    with pytest.raises(ExportFailed, match=r"this tokenizer's regex '\\\\w\+'"):
        pre_tokenizer_name(parts)


def test_an_unknown_splitting_step_is_refused_and_named():
    parts = parts_of(byte_level_tokenizer("gpt-2"))
    parts["pre_tokenizer"] = {"type": "Whitespace"}
    with pytest.raises(ExportFailed, match="splits by Whitespace"):
        pre_tokenizer_name(parts)


def test_a_regex_that_keeps_what_it_should_split_off_is_refused():
    parts = parts_of(byte_level_tokenizer("qwen2"))
    parts["pre_tokenizer"]["pretokenizers"][0]["invert"] = True
    assert parts["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] == SPLITS["qwen2"]
    with pytest.raises(ExportFailed, match="no splitting rule known here"):
        pre_tokenizer_name(parts)


def test_a_byte_level_vocabulary_is_written_with_its_special_tokens_and_filled_up(tmp_path: Path):
    tokenizer = byte_level_tokenizer("gpt-2")
    fields = written(tokenizer, tmp_path)
    assert fields["model"] == "gpt2"
    assert fields["tokens"][:4] == ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin|>"]
    assert fields["tokens"][-3:] == [f"[PAD{len(tokenizer) + offset}]" for offset in range(3)]
    assert fields["token_type"][:4] == [gguf.TokenType.CONTROL] * 4
    assert fields["token_type"][-3:] == [gguf.TokenType.UNUSED] * 3
    assert fields["eos_token_id"] == 2
    assert fields["padding_token_id"] == 0
    assert fields["tokenizer.chat_template"] == tokenizer.chat_template
    assert "bos_token_id" not in fields
    assert fields["add_bos_token"] is False


def test_merges_are_written_the_same_from_pairs_and_from_strings(tmp_path: Path):
    tokenizer = byte_level_tokenizer("gpt-2")
    from_pairs = written(tokenizer, tmp_path)["merges"]
    parts = json.loads((tmp_path / "tokenizer.json").read_text())
    assert from_pairs == [" ".join(pair) for pair in parts["model"]["merges"]]


@pytest.mark.parametrize(("model_eos", "end_of_turn"), [(None, None), (2, None), ([2, 0], 0), ([0, 2], 0)])
def test_a_second_end_of_text_becomes_the_end_of_turn(model_eos: object, end_of_turn: int | None, tmp_path: Path):
    fields = written(byte_level_tokenizer("gpt-2"), tmp_path, model_eos)
    assert (fields["eos_token_id"], fields.get("eot_token_id")) == (2, end_of_turn)


def test_a_model_that_names_no_end_of_text_is_refused(tmp_path: Path):
    tokenizer = byte_level_tokenizer("gpt-2")
    tokenizer.eos_token = None
    with pytest.raises(ExportFailed, match="generation would not stop"):
        written(tokenizer, tmp_path)


def test_a_bos_is_added_by_llama_cpp_only_where_the_template_renders_one():
    with_bos = byte_level_tokenizer("llama-bpe", bos=True)
    assert starts_with_bos(with_bos)
    with_bos.chat_template = byte_level_tokenizer().chat_template
    assert not starts_with_bos(with_bos)


def test_without_a_template_the_tokenizer_decides_about_bos():
    assert starts_with_bos(sentencepiece_like_tokenizer())
    assert not starts_with_bos(byte_level_tokenizer())


def test_sentencepiece_like_pieces_score_by_the_rank_of_their_merge(tmp_path: Path):
    tokenizer = sentencepiece_like_tokenizer()
    fields = written(tokenizer, tmp_path)
    first, second, *_ = ("".join(pair) for pair in parts_of(tokenizer)["model"]["merges"])
    score = dict(zip(fields["tokens"], fields["scores"], strict=True))
    assert (score[first], score[second]) == (0.0, -1.0)
    assert fields["model"] == "llama"
    assert fields["add_space_prefix"] is True
    assert fields["token_type"][:4] == [
        gguf.TokenType.UNKNOWN,
        gguf.TokenType.CONTROL,
        gguf.TokenType.CONTROL,
        gguf.TokenType.BYTE,
    ]


def test_gemma_puts_no_space_in_front_and_its_runs_of_spaces_are_tokens(tmp_path: Path):
    fields = written(gemma_tokenizer(), tmp_path)
    assert (fields["model"], fields["add_space_prefix"], fields["add_bos_token"]) == ("llama", False, True)
    kind = dict(zip(fields["tokens"], fields["token_type"], strict=True))
    assert {kind[text] for text in ("▁▁", "\n\n\n")} == {gguf.TokenType.USER_DEFINED}
    assert {kind[text] for text in ("<bos>", "<start_of_turn>")} == {gguf.TokenType.CONTROL}
    assert kind["<unk>"] == gguf.TokenType.UNKNOWN


def change(tokenizer: PreTrainedTokenizerFast, directory: Path, **changes: Any) -> None:
    tokenizer.save_pretrained(directory)
    parts = json.loads((directory / "tokenizer.json").read_text())
    (directory / "tokenizer.json").write_text(json.dumps(parts | changes))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"model": {"type": "WordPiece", "vocab": {}}}, "tokenizer of the kind WordPiece; supported: BPE"),
        ({"normalizer": {"type": "Lowercase"}}, "does not normalise text with Lowercase"),
        (
            {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}},
            "does not put a space before",
        ),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "a BPE tokenizer with the steps Whitespace"),
    ],
)
def test_a_tokenizer_that_llama_cpp_cannot_reproduce_is_refused(changes: dict[str, Any], what: str, tmp_path: Path):
    tokenizer = byte_level_tokenizer()
    change(tokenizer, tmp_path, **changes)
    with pytest.raises(ExportFailed, match=what):
        write_tokenizer(gguf.GGUFWriter(None, "llama"), tmp_path, tokenizer, 600, None)


@pytest.mark.parametrize(
    ("normalizer", "what"),
    [
        ({"type": "Replace", "pattern": {"String": "a"}, "content": "b"}, "does nothing to text but write spaces as ▁"),
        (None, "does nothing to text but write spaces as ▁"),
        ({"type": "NFKC"}, "with the steps NFKC"),
    ],
)
def test_a_gemma_tokenizer_that_changes_text_otherwise_is_refused(normalizer: Any, what: str, tmp_path: Path):
    change(gemma_tokenizer(), tmp_path, normalizer=normalizer)
    with pytest.raises(ExportFailed, match=what):
        write_tokenizer(gguf.GGUFWriter(None, "llama"), tmp_path, gemma_tokenizer(), 900, None)


@pytest.mark.parametrize("content", ["{", "[]", '"text"', "{}", '{"model": {"type": "BPE"}}', "[" * 100_000])
def test_a_damaged_tokenizer_is_told_in_one_line(content: str, tmp_path: Path):
    tokenizer = byte_level_tokenizer()
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ExportFailed, match=r"tokenizer.json .*cannot be read: "):
        write_tokenizer(gguf.GGUFWriter(None, "llama"), tmp_path, tokenizer, 900, None)


def test_a_tokenizer_larger_than_the_model_is_refused(tmp_path: Path):
    tokenizer = byte_level_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ExportFailed, match="but the model embeds only 100 tokens"):
        write_tokenizer(gguf.GGUFWriter(None, "llama"), tmp_path, tokenizer, 100, None)


def test_a_model_without_a_fast_tokenizer_is_refused(tmp_path: Path):
    with pytest.raises(ExportFailed, match="no tokenizer.json"):
        write_tokenizer(gguf.GGUFWriter(None, "llama"), tmp_path, byte_level_tokenizer(), 600, None)
