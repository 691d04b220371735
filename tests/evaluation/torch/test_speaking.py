"""What a model says to held-out prompts, as it was trained to answer them."""

import json
from pathlib import Path

import pytest

from rl.base.records import Choosing, silent
from rl.evaluation.torch.answering import Speaker, answer_versions
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


def test_what_is_served_with_a_schema_is_measured_with_it(tiny_base: Path):
    schema = {"type": "object", "properties": {"team": {"enum": ["cards", "cash"]}}, "required": ["team"]}
    base, tokenizer = str(tiny_base), loading.load_tokenizer(str(tiny_base))
    model = loading.load_base(base, "fp32").eval()
    speaker = Speaker(ASKED[1:], 2048, 200, silent, schema={**schema, "additionalProperties": False})
    speaker("base", tokenizer, model, model)
    (answer,) = speaker.answers["base"]
    assert answer is not None
    assert json.loads(answer.text)["team"] in ("cards", "cash")


def test_an_answer_of_a_set_that_another_server_chooses_is_the_models_alone(tiny_base: Path):
    base, tokenizer = str(tiny_base), loading.load_tokenizer(str(tiny_base))
    model = loading.load_base(base, "fp32").eval()
    said = {}
    for alone in (True, False):
        speaker = Speaker(ASKED[1:], 2048, 8, silent, choosing=Choosing(("identity", "cards"), {}, alone))
        speaker("base", tokenizer, model, model)
        (answer,) = speaker.answers["base"]
        said[alone] = answer and answer.text.strip()
    # of one question nothing is left but the mean, and the first of the set
    assert said == {True: "cards", False: "identity"}
