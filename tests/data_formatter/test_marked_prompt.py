from __future__ import annotations

import pytest

from rl.data_formatter.marked_prompt import messages_of


def test_a_text_without_marks_is_what_the_user_says():
    text = "Tell me of <|user|> and other marks."
    assert messages_of(text) == [{"role": "user", "content": text}]


@pytest.mark.parametrize("end", ["", "\n<|assistant|>", "\n<|assistant|>\n"])
def test_marks_say_who_speaks(end: str):
    assert messages_of(f"<|system|>\nBe kind.\n<|user|>\nHello\n<|assistant|>\nYes?\n<|user|>\nA\n\nB{end}") == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "A\n\nB"},
    ]
