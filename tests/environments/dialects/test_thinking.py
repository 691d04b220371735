from __future__ import annotations

import pytest

from rl.environments.dialects.thinking import without_thinking


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("It is 42.", "It is 42."),
        ("<think>\n6 times 7?\n</think>\n\nIt is 42.", "It is 42."),
        ("6 times 7?\n</think>\n\nIt is 42.", "It is 42."),
        ("<think>Perhaps <tool_call>{}</tool_call></think>No.", "No."),
        ("<think>one</think> <think>two</think> It is 42.", "It is 42."),
        ("[THINK]6 times 7?[/THINK]It is 42.", "It is 42."),
        ("<think>6 times", ""),
        ("Well. <think>6 times", "Well."),
    ],
)
def test_only_what_is_said_aloud_is_left(text: str, said: str):
    assert without_thinking(text) == said
