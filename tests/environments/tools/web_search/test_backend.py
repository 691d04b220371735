import pytest

from rl.environments.tools.web_search.backend import MOST_RESULTS, list_in, plain, read_results


def test_what_has_neither_title_nor_text_is_left_out():
    items = [None, 3, [], {}, {"url": "https://x.example"}, {"title": 5, "snippet": ["a"]}, {"title": "kept"}, "text"]
    assert read_results(*items) == [("kept", "", ""), ("", "", "text")]


def test_only_the_first_results_are_kept():
    assert len(read_results(*[{"title": "x"}] * 50)) == MOST_RESULTS


def test_text_becomes_one_line_that_utf_8_can_hold():
    assert plain(" a\n\tb \ud83d c ", 100) == "a b ? c"
    assert plain("abcdef", 3) == "abc"


def test_a_list_is_found_by_its_path_or_the_shape_is_wrong():
    assert list_in({"a": {"b": [1]}}, "a", "b") == [1]
    for document in ({"a": [1]}, [1], None, {"a": {"b": {}}}):
        with pytest.raises(ValueError, match=r"no list a\.b"):
            list_in(document, "a", "b")
