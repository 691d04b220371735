"""What the documentation says that chat templates refuse or drop is what they do."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.environments.contract import Action, ToolRequest
from rl.lm.chat.format import ChatFormat
from rl.lm.chat.template import TOOL_NAME, answer_form
from tests.lm.chat.test_answers import _templates, _tokenizer

pytestmark = pytest.mark.learn
PAGE = Path(__file__).parents[3] / "docs/datasets.md"
NAMES = [name for name in _templates() if not name.endswith("_training")]
CHATS = {
    "an answer before any question": ("assistant", "user"),
    "two answers in a row": ("user", "assistant", "assistant", "user"),
    "a system message after a question": ("user", "assistant", "system", "user"),
}


def found() -> dict[str, set[str]]:
    of: defaultdict[str, set[str]] = defaultdict(set)
    for name in NAMES:
        model = _tokenizer(name, thinks=True)
        for what in (*_of_tools(ChatFormat(model, speaks=False)), *_of_chats(model)):
            of[what].add(name)
    return dict(of)


def _of_tools(chat: ChatFormat) -> list[str]:
    if chat.name == "plain":
        return ["tools"]
    calls = [ToolRequest(TOOL_NAME, {"query": text}) for text in ("a", "b")]
    chat.turn_ids(Action("Let me look.", (calls[0],)))
    lost = ["words beside a call"] if chat.dropped_texts else []
    try:
        chat.turn_ids(Action("", tuple(calls)))
    except UsageError:
        lost.append("several calls in a turn")
    return lost


def _of_chats(model: Any) -> list[str]:
    form = answer_form(model)
    lost = [] if form.thought else ["recorded thoughts"]
    for what, roles in CHATS.items():
        texts = [f"z{number}z" for number in range(len(roles))]
        prompt = form.prompt([{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)])
        if not isinstance(prompt, str):
            lost.append(what)
        elif not all(text in prompt for text in texts):
            lost.append("the same")
    return lost


def test_the_table_lists_the_templates_that_do_so():
    section = PAGE.read_text(encoding="utf-8").partition("### Chat templates that do not fit")[2].partition("\n#")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    told = {row[0].removeprefix("| "): set(re.findall(r"`(\w+)`", row[1])) for row in rows}
    assert told.pop("results of tools") == {"gemma4_v2"}  # of which llama.cpp tells (tests/export/gguf/test_check.py)
    assert told == found()
