"""What a model says to held-out prompts, as it was trained to answer them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl.base.records import silent
from rl.evaluation.torch.answering import answer_versions
from rl.evaluation.torch.speaking import Speaker
from rl.lm import loading
from rl.lm.chat.format import ChatFormat
from tests.lm.chat.test_format import MESSAGES, SEARCH

pytestmark = pytest.mark.learn

ASKED = [{"prompt": MESSAGES, "prompt_key": "q", "tools": [SEARCH]}, {"prompt": MESSAGES, "prompt_key": "p"}]


def test_a_prompt_offers_the_tools_of_its_row(tiny_base: Path):
    base, tokenizer = str(tiny_base), loading.load_tokenizer(str(tiny_base))
    model = loading.load_base(base, "fp32").eval()
    speaker = Speaker(ASKED, 2048, 8, silent)
    speaker("base", tokenizer, model, model)
    lengths = [len(ChatFormat(tokenizer).prompt_ids(MESSAGES, tools)) for tools in ([SEARCH], ())]
    assert [answer and answer.tokens_in for answer in speaker.answers["base"]] == lengths
    assert lengths[0] > lengths[1]
    same = answer_versions(base, {"base": None}, ASKED, max_length=2048, max_new_tokens=8, report=silent)
    assert same["base"] == speaker.answers["base"]
