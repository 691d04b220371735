from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rl.base.errors import BadFile, UsageError
from rl.base.records import Message
from rl.data_formatter import DPOPair, load_pairs_from_jsonl, pairs_to_jsonl, training_row

PAIR = DPOPair("Which?", "this", "that", "q1", "kpi", {"pair_type": "fixture", "confidence": 0.75, "feedback": [1, 2]})

messages = st.lists(st.builds(Message, role=st.sampled_from(["system", "user", "assistant"]), content=st.text()))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
pairs_strategy = st.lists(
    st.builds(
        DPOPair,
        prompt=st.text() | messages,
        chosen=st.text(),
        rejected=st.text(),
        question_id=st.text(),
        scenario=st.none() | st.text(),
        metadata=st.none() | st.dictionaries(st.text(), values, max_size=4),
    ),
    max_size=5,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs_strategy)
def test_what_is_written_is_read_back_exactly(tmp_path: Path, pairs):
    path = tmp_path / "pairs.jsonl"
    assert pairs_to_jsonl(pairs, path) == len(pairs)
    assert load_pairs_from_jsonl(path) == pairs


def test_a_line_separator_within_a_text_is_no_new_line(tmp_path: Path):
    pair = DPOPair("a\u2028b\x85c\r\nd", "x\ry", "z", "q")
    pairs_to_jsonl([pair], tmp_path / "p.jsonl")
    assert load_pairs_from_jsonl(tmp_path / "p.jsonl") == [pair]


def test_a_failure_half_way_leaves_the_file_as_it_was(tmp_path: Path):
    path = tmp_path / "p.jsonl"
    pairs_to_jsonl([PAIR], path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=r"pair 2 of 'q' cannot be written"):
        pairs_to_jsonl([PAIR, DPOPair("p", "half a pair \ud83d", "b", "q")], path)
    with pytest.raises(UsageError, match="pair 1"):
        pairs_to_jsonl([DPOPair("p", "a", "b", "q", metadata={"score": float("nan")})], path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path):
    with pytest.raises(UsageError, match="none/p.jsonl cannot be written: No such file"):
        pairs_to_jsonl([PAIR], tmp_path / "none" / "p.jsonl")


def test_an_escaped_emoji_is_read(tmp_path: Path):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps(GOOD | {"chosen": "\U0001f600"}))
    assert load_pairs_from_jsonl(path)[0].chosen == "\U0001f600"


def test_blank_lines_are_skipped_and_optional_fields_may_be_missing(tmp_path: Path):
    path = tmp_path / "p.jsonl"
    path.write_text('\n{"prompt": "p", "chosen": "a", "rejected": "b", "question_id": "q"}\n  \n')
    assert load_pairs_from_jsonl(path) == [DPOPair("p", "a", "b", "q")]


GOOD = {"prompt": "p", "chosen": "a", "rejected": "b", "question_id": "q"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"prompt": "p"', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        (b'{"prompt": "\xff"}', "not valid JSON"),
        (json.dumps(GOOD | {"chosen": "cut \ud83d"}), "half of a surrogate pair"),
        ("[1]", "one JSON object"),
        (json.dumps({k: v for k, v in GOOD.items() if k != "rejected"}), "field 'rejected' is missing"),
        (json.dumps(GOOD | {"chosen": None}), "field 'chosen' must be text, not null"),
        (json.dumps(GOOD | {"question_id": 7}), "field 'question_id' must be text, not int"),
        (json.dumps(GOOD | {"prompt": 7}), "field 'prompt' must be text or a list of messages"),
        (json.dumps(GOOD | {"prompt": ["p"]}), "field 'prompt' must hold messages"),
        (json.dumps(GOOD | {"prompt": [{"role": "user", "content": None}]}), "field 'prompt' must hold messages whose"),
        (json.dumps(GOOD | {"scenario": 1}), "field 'scenario'"),
        (json.dumps(GOOD | {"metadata": []}), "field 'metadata' must be an object"),
        (json.dumps(GOOD | {"prompts": "x"}), "unknown field 'prompts'"),
    ],
)
def test_a_broken_line_is_named_with_its_number_and_field(tmp_path: Path, line, problem):
    path = tmp_path / "p.jsonl"
    pairs_to_jsonl([PAIR, PAIR], path)
    with path.open("ab") as file:
        file.write(line if isinstance(line, bytes) else line.encode())
    with pytest.raises(BadFile, match=r"\(line 3[,)]") as caught:
        load_pairs_from_jsonl(path)
    assert problem in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(BadFile, match="none.jsonl: cannot be read: No such file"):
        load_pairs_from_jsonl(tmp_path / "none.jsonl")


def test_a_training_row_is_a_conversation():
    assert training_row(PAIR) == {
        "prompt": [{"role": "user", "content": "Which?"}],
        "chosen": [{"role": "assistant", "content": "this"}],
        "rejected": [{"role": "assistant", "content": "that"}],
        "prompt_key": "q1",
        "feedback": [1, 2],
    }


def test_a_prompt_of_messages_stays_as_it_is():
    prompt = [Message(role="system", content="Be brief."), Message(role="user", content="Hi")]
    row = training_row(DPOPair(prompt, "a", "b", "q"))
    assert row["prompt"] == prompt
    assert row["feedback"] == []
