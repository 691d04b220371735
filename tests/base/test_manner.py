import pytest

from rl.base.errors import UsageError
from rl.base.manner import LONGEST, SYSTEM, Manner, check_instruction

SHORT = "Answer in one short sentence."
CHAT = [
    {"role": "system", "content": "You help."},
    {"role": "user", "content": "Why?"},
    {"role": "assistant", "content": "Because."},
    {"role": "user", "content": "And how?"},
    {"role": "assistant", "content": "", "tool_calls": []},
    {"role": "tool", "content": "42"},
]


def test_an_instruction_stands_behind_the_last_question_alone() -> None:
    told = Manner(instruction=SHORT).tell(CHAT)
    assert told[3] == {"role": "user", "content": f"And how?\n\n{SHORT}"}
    assert [message for at, message in enumerate(told) if at != 3] == [*CHAT[:3], *CHAT[4:]]
    assert CHAT[3]["content"] == "And how?"


def test_it_may_end_the_system_prompt_or_be_one() -> None:
    told = Manner(instruction=SHORT, instruction_place=SYSTEM)
    assert told.tell(CHAT)[0] == {"role": "system", "content": f"You help.\n\n{SHORT}"}
    assert told.tell(CHAT[1:2]) == [{"role": "system", "content": SHORT}, CHAT[1]]


def test_parts_get_one_more_and_empty_texts_become_it() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    parts = [{"role": "user", "content": [picture]}]
    assert Manner(instruction=SHORT).tell(parts)[0]["content"] == [picture, {"type": "text", "text": SHORT}]
    assert Manner(instruction=SHORT).tell([{"role": "user", "content": None}])[0]["content"] == SHORT


def test_without_an_instruction_or_a_question_nothing_changes() -> None:
    assert Manner().tell(CHAT) == CHAT
    assert Manner(instruction=SHORT).tell(CHAT[2:3]) == CHAT[2:3]


@pytest.mark.parametrize("text", ["x" * (LONGEST + 1), None, 3])
def test_what_is_no_text_or_too_long_is_refused(text: object) -> None:
    with pytest.raises(UsageError, match=f"a text of at most {LONGEST} characters"):
        check_instruction(text)
