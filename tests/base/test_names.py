import pytest

from rl.base.errors import UsageError
from rl.base.names import did_you_mean, require_known, unknown_name


def test_the_nearest_name_is_proposed_where_there_is_one():
    assert did_you_mean("max_turn", ["seed", "max_turns"]) == " (did you mean max_turns?)"
    assert did_you_mean(7, ["seed"]) == ""
    assert did_you_mean("x", []) == ""
    assert did_you_mean("USER:Ana", ["user:anna", "user:bo"]) == " (did you mean user:anna?)"
    assert did_you_mean("gptq", ["GPTQ", "AWQ"]) == " (did you mean GPTQ?)"


def test_the_sentence_says_what_is_unknown_and_lists_what_is_known():
    assert unknown_name("preset", "x", ["tiny", "gpu"]) == "unknown preset 'x'; known: tiny, gpu"
    assert unknown_name("preset", "tinny", ["tiny"]) == "unknown preset 'tinny' (did you mean tiny?); known: tiny"
    assert unknown_name("metric", "x", ["mean"], "outcome:NAME") == "unknown metric 'x'; known: mean, outcome:NAME"
    in_a_file = unknown_name("key", "sed", ["seed"], section="train")
    assert in_a_file == "unknown key 'train.sed' (did you mean seed?); known: seed"


def test_where_nothing_is_known_it_says_so_and_a_long_name_is_cut():
    assert unknown_name("agent", "n" * 300, []) == f"unknown agent {'n' * 100!r}; known: none"


def test_a_known_name_is_let_through_and_an_unknown_one_is_a_usage_error():
    require_known("preset", "tiny", ["tiny"])
    with pytest.raises(UsageError, match="unknown preset 'x'; known: tiny"):
        require_known("preset", "x", ["tiny"])
