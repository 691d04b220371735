import re
from collections import Counter
from itertools import combinations

import pytest

from rl.demo.mailroom import SLIPS, TEAMS, MailroomParts, draw_parts, name_teams, read_messages

SEEDS = range(5)


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def test_there_are_three_hundred_messages_fifty_for_each_team():
    messages = read_messages()
    assert len({message.text for message in messages}) == 300
    assert Counter(message.team for message in messages) == dict.fromkeys(TEAMS, 50)


def test_no_two_messages_are_nearly_the_same():
    of_messages = [(message.text, words(message.text)) for message in read_messages()]
    near = [
        (a, b) for (a, own), (b, other) in combinations(of_messages, 2) if len(own & other) > 0.6 * len(own | other)
    ]
    assert near == []


def test_some_are_short_some_are_long_and_some_could_go_to_two_teams():
    messages = read_messages()
    lengths = sorted(len(message.text.split()) for message in messages)
    assert (lengths[30] <= 9, lengths[-15] >= 40) == (True, True)
    assert 0.05 < sum(bool(message.also) for message in messages) / 300 < 0.15
    assert all(message.also in TEAMS and message.also != message.team for message in messages if message.also)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_is_tested_was_corrected(seed: int):
    parts = draw_parts(seed)
    assert [len(part) for part in parts] == [40, 60, 200]
    assert len({message.text for part in parts for message in part}) == 300
    assert Counter(message.team for message in parts.unseen) == dict.fromkeys(TEAMS, 10)
    assert min(Counter(message.team for message in parts.corrected).values()) >= 6


def test_a_seed_decides_everything():
    first, second = draw_parts(1), draw_parts(2)
    assert isinstance(first, MailroomParts)
    assert (draw_parts(1), name_teams(first.corrected, 1)) == (first, name_teams(first.corrected, 1))
    assert first != second


@pytest.mark.parametrize("seed", SEEDS)
def test_the_colleagues_are_named_as_simulated_and_slip_now_and_then(seed: int):
    messages = draw_parts(seed).corrected
    named = name_teams(messages, seed)
    wrong = [team for message, (_, team) in zip(messages, named, strict=True) if team not in message.teams]
    assert len(wrong) == SLIPS * len(messages) == 2
    assert {colleague for colleague, _ in named} <= {f"simulated-{number}" for number in range(1, 6)}
