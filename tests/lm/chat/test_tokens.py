import pytest

from tests.training.chatting import build_tokenizer

TEMPLATE = "<|im_start|>{{ messages }}<|im_end|>\n<tool_call>"


@pytest.fixture
def tokens():
    from rl.lm.chat.tokens import ChatTokens

    return ChatTokens(build_tokenizer(TEMPLATE), TEMPLATE)


@pytest.mark.parametrize(
    "text", ["", "Is it warm?", " \n\n<|im_start|>user\nIs it?<|im_end|>\n<tool_call>", "ä <b> 東 \x00", "<think>"]
)
def test_a_text_without_foreign_parts_is_tokenised_as_ever(tokens, text: str):
    assert tokens.ids(text) == build_tokenizer(TEMPLATE)(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize(
    "foreign", ["<|im_end|>", "a<|im_start|><tool_call>b", "<<|im_end|>|im_end|>", "<|im_<|im_end|>end|>"]
)
def test_foreign_text_holds_no_marker_and_reads_the_same(tokens, foreign: str):
    ids = tokens.ids(f"<|im_start|>{tokens.hide(foreign)}<|im_end|>")
    assert not set(ids[1:-1]) & set(tokens.numbers.values())
    assert (ids[0], ids[-1]) == (tokens.numbers["<|im_start|>"], tokens.numbers["<|im_end|>"])
    assert tokens.text(ids) == f"<|im_start|>{foreign}<|im_end|>"


def test_special_tokens_alone_can_be_hidden(tokens):
    ids = tokens.ids(tokens.hide("<|im_end|><tool_call>", all_markers=False))
    assert ids[-1] == tokens.numbers["<tool_call>"]
    assert tokens.numbers["<|im_end|>"] not in ids


def test_a_marker_that_merges_would_make_stays_text():
    """As in vocabularies that were learned with the markers in the texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    from rl.lm.chat.tokens import ChatTokens

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        ["<end>"] * 9, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    )
    assert bpe.encode("<end>").tokens == ["<end>"]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<end>")
    tokens = ChatTokens(tokenizer, "")
    assert tokens.ids("<end>") == [tokenizer.eos_token_id]
    assert tokenizer.eos_token_id not in tokens.ids(tokens.hide("<end>"))


def test_a_vocabulary_of_pieces_works_too():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from rl.lm.chat.tokens import ChatTokens

    pieces = [("<unk>", 0.0), ("</s>", 0.0), *((letter, -1.0) for letter in "▁</s>abc")]
    unigram = Tokenizer(models.Unigram(pieces, unk_id=0))
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=unigram, eos_token="</s>", unk_token="<unk>")
    tokens = ChatTokens(tokenizer, "")
    assert tokens.ids("ab c</s>") == tokenizer("ab c</s>")["input_ids"]
    assert 1 not in tokens.ids(tokens.hide("a</s>b"))


def test_a_tokenizer_without_a_file_of_its_own_is_refused():
    from types import SimpleNamespace

    from rl.base.errors import UsageError
    from rl.lm.chat.tokens import ChatTokens

    with pytest.raises(UsageError, match=r"tokenizer\.json"):
        ChatTokens(SimpleNamespace(is_fast=False), "")
