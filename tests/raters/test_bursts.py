from collections import Counter

from rl.raters.bursts import Act, reasons

MIXED = Counter({"1.0": 60, "0.0": 40})


def acts(number: int, pause: float, values: str = "10", text: str = "") -> list[Act]:
    return [Act(at * pause, at * pause, f"{values[at % len(values)]}.0", text) for at in range(number)]


def test_people_who_are_quick_are_people():
    assert reasons(acts(600, 1.0), MIXED) == []
    assert reasons(acts(10, 0.05, "1"), MIXED) == []
    assert reasons([Act(float(at), 100.0, "1.0") for at in range(20)], MIXED) == []  # sent together after a while
    assert reasons([], MIXED) == []


def test_three_a_second_for_twenty_seconds_is_a_burst():
    assert reasons(acts(90, 0.2), MIXED) == ["90 decisions within 20 seconds"]
    assert reasons(acts(59, 0.2), MIXED) == []


def test_a_clock_of_ones_own_does_not_hide_a_burst():
    hidden = [Act(at * 60.0, 5.0, "1.0" if at % 2 else "0.0") for at in range(300)]
    assert reasons(hidden, MIXED) == ["300 decisions arrived within 20 seconds"]


def test_one_value_always_and_quickly_is_named_where_others_are_of_two_minds():
    assert reasons(acts(60, 0.8, "1"), MIXED) == [
        "50 times 1.0 in a row, 0.8 seconds apart, where others say so in 60%"
    ]
    assert reasons(acts(60, 3.0, "1"), MIXED) == []  # somebody who reads
    assert reasons(acts(60, 0.8, "1"), Counter({"1.0": 95, "0.0": 5})) == []  # good answers
    assert reasons(acts(60, 0.8, "1"), Counter()) == []  # nobody else


def test_one_text_under_everything_is_named_and_a_short_word_is_not():
    assert reasons(acts(20, 30, text="Buy  CHEAP pills here"), MIXED) == ["the same text 20 times within an hour"]
    assert reasons(acts(40, 30, text="too long"), MIXED) == []
    assert reasons(acts(40, 600, text="It does not answer the question."), MIXED) == []
