import pytest

from rl.export.gguf.tokenizer import pre_tokenizer_name
from rl.lm.text_splitting import PRE_TOKENIZERS


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_the_export_knows_each_rule_by_the_name_that_brings_it_back(name: str):
    assert pre_tokenizer_name({"pre_tokenizer": PRE_TOKENIZERS[name]}) == name
