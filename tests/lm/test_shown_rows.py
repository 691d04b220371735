from pathlib import Path
from typing import Any

import pytest

from rl.base.records import silent
from rl.lm.encoding import encode
from rl.lm.lengths import LengthCount
from rl.lm.loading import load_tokenizer
from rl.lm.own_tokens import of_others
from rl.lm.shown_rows import ShownRows
from tests.training.conftest import row

pytestmark = pytest.mark.learn


def shown(tiny_base: Path, *rows: dict[str, Any], most_tokens: int = 1000) -> dict[str, Any]:
    tokenizer, lengths = load_tokenizer(str(tiny_base)), LengthCount()
    kept = ShownRows(tokenizer)
    for one, ids in zip(rows, encode(tokenizer, rows, len(rows), silent), strict=True):
        kept.add(one, ids, lengths.fit(ids, most_tokens))
    return kept.as_dict()


def test_a_row_is_shown_as_the_model_sees_it_and_where_it_comes_from(tiny_base: Path):
    [seen] = shown(tiny_base, row("Where?", "Here, in Köln 🙂.", "There.") | {"feedback": [3], "weight": 0.5})["rows"]
    assert seen["prompt"] == "<|im_start|>user\nWhere?<|im_end|>\n<|im_start|>assistant\n"
    assert (seen["feedback"], seen["weight"]) == ([3], 0.5)
    chosen, rejected = seen["answers"]
    assert "".join(text for text, _ in chosen["pieces"]) == "Here, in Köln 🙂.<|im_end|>"
    assert chosen["pieces"][-1] == ("<|im_end|>", True)
    assert len(chosen["pieces"]) <= chosen["tokens"]
    assert not any("\ufffd" in text for text, _ in chosen["pieces"])
    assert (rejected["name"], rejected["is_cut"]) == ("rejected", False)


def test_what_is_cut_and_what_is_left_out_are_told(tiny_base: Path):
    seen = shown(tiny_base, row("Where?", "Here, " * 50, "There."), row("word " * 200, "a", "b"), most_tokens=40)
    assert [answer["is_cut"] for answer in seen["rows"][0]["answers"]] == [True, False]
    [left_out] = seen["left_out"]
    assert left_out["reason"].endswith("tokens, too many")
    assert left_out["question"].startswith("word word")


def test_what_others_said_in_a_run_is_not_shown_as_learned(tiny_base: Path):
    tokenizer = load_tokenizer(str(tiny_base))
    own, of_tool = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("I look. ", "22 degrees"))
    ids = {"prompt_ids": own, "completion_ids": [*own, *of_others(of_tool), *own]}
    kept = ShownRows(tokenizer)
    kept.add({"prompt": [{"role": "user", "content": "?"}]}, ids, ids)
    [answer] = kept.as_dict()["rows"][0]["answers"]
    assert "".join(text for text, is_own in answer["pieces"] if not is_own) == "22 degrees"
    assert "".join(text for text, is_own in answer["pieces"] if is_own) == "I look. I look. "
