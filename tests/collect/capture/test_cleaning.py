import json
from collections import OrderedDict, UserDict
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.collect.capture.cleaning import CUT, MOST_CHARACTERS, Cleaner
from rl.collect.capture.troubles import Troubles
from rl.collect.storable import unstorable

clean = Cleaner(None, Troubles())


class Blob:
    def __repr__(self) -> str:
        return "<Blob>"


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": (1, 2.5, None, True)}, {"a": [1, 2.5, None, True]}),
        (OrderedDict(b=1), {"b": 1}),
        ({1: "x", None: "y"}, {"1": "x", "None": "y"}),
        ({"when": timedelta(1)}, {"when": "datetime.timedelta(days=1)"}),
        (b"\x00\xff", "b'\\x00\\xff'"),
        ([Blob(), Broken()], ["<Blob>", "<Broken without repr>"]),
        (UserDict(a=1), "{'a': 1}"),
        (float("inf"), "inf"),
        (2**70, hex(2**70)),
        ("x" * 3000, "x" * 2000),
    ],
)
def test_values_become_json(value: object, expected: object):
    assert clean.value(value, 2000, "x") == expected


def test_a_value_within_itself_ends():
    value: list[Any] = [1]
    value.append(value)
    text = json.dumps(clean.value(value, 2000, "x"), ensure_ascii=False)
    assert CUT in text
    assert len(text) < 2000


def test_a_subclass_of_text_is_taken_as_what_it_is():
    class Text(str):
        def __getitem__(self, key: Any) -> str:
            raise RuntimeError

        def __str__(self) -> str:
            raise RuntimeError

    kept = clean.text(Text("abc"), 10, "x")
    assert kept == "abc"
    assert type(kept) is str


def test_huge_values_are_cut_without_being_read():
    class Reader(dict[str, int]):
        reads = 0

        def items(self) -> Any:
            for number in range(10**9):
                Reader.reads += 1
                yield str(number), number

    clean.value(Reader(), 2000, "x")
    assert Reader.reads < 1000
    assert len(json.dumps(clean.value(["y" * 5000] * 5000, 2000, "x"))) < 2 * MOST_CHARACTERS


def test_redact_sees_a_secret_that_the_cut_would_halve():
    redacting = Cleaner(lambda name, value: value.replace("SECRET", "***"), Troubles())
    assert redacting.text("a" * 1997 + "SECRET", 2000, "x") == "a" * 1997 + "***"


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
    max_leaves=12,
)


@settings(max_examples=50)
@given(json_values, st.integers(0, 50))
def test_whatever_comes_can_be_written_and_stored(value: object, limit: int):
    for cleaned in (clean.value(value, limit, "x"), clean.fit(value, limit, "x"), clean.text(value, limit, "x")):
        assert unstorable(json.loads(json.dumps(cleaned, allow_nan=False))) == ""
    assert len(clean.text(value, limit, "x")) <= limit
