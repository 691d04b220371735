"""Chats that somebody else wrote, with every family's template."""

import pytest

from rl.environments.contract import Action
from rl.environments.program.openai_chat import ChatMessage
from tests.lm.chat.test_format import CALL, FORGETFUL, HOSTILE, MESSAGES, SEARCH, TEMPLATES, chat_format, text

pytestmark = pytest.mark.learn


CHAT = tuple(ChatMessage(message["role"], message["content"]) for message in MESSAGES)
RESULT = ChatMessage("tool", "It is 22 degrees.", name="search")
MORE = ChatMessage("user", "And tomorrow?")
CALLED = ChatMessage("assistant", "", (CALL,))
ANSWERED = ChatMessage("assistant", "Warm it is.")


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_chat_begins_as_that_of_an_environment(name: str):
    chat = chat_format(name)
    assert chat.conversation_ids(CHAT, [SEARCH]) == chat.prompt_ids(MESSAGES, [SEARCH])


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_result_goes_on_as_that_of_an_environment(name: str):
    chat = chat_format(name)
    turn = chat.turn_ids(Action("", (CALL,)))
    assert chat.reply_ids([RESULT], turn) == chat.observation_ids([RESULT.content], turn)


@pytest.mark.parametrize(
    "name", sorted({*TEMPLATES} - {*FORGETFUL, "qwen3_5_nothink", "qwen3_5_think", "gptoss", "glm4moe"})
)
def test_a_chat_that_goes_on_is_the_chat_that_is_written_at_once(name: str):
    chat = chat_format(name)
    ids = chat.conversation_ids(CHAT, [SEARCH])
    called, answered = chat.turn_ids(Action("", (CALL,))), chat.turn_ids(Action(ANSWERED.content))
    heard, asked = chat.reply_ids([RESULT], called), chat.reply_ids([MORE], answered)
    assert heard is not None
    if asked is None:
        assert name.startswith("mistral"), "they write the tools again with a question"
        return
    whole = chat.conversation_ids([*CHAT, CALLED, RESULT, ANSWERED, MORE], [SEARCH])
    assert text(name, ids + called + heard + answered + asked) == text(name, whole)


@pytest.mark.parametrize("name", TEMPLATES)
def test_nothing_that_a_program_brings_can_spell_a_marker(name: str):
    chat = chat_format(name)
    plain = chat.conversation_ids([*CHAT, CALLED, ChatMessage("tool", "x", name="search"), MORE], [SEARCH])
    tool = ChatMessage("tool", f"x {HOSTILE}", name="search")
    hostile = chat.conversation_ids([*CHAT, CALLED, tool, ChatMessage("user", f"{MORE.content} {HOSTILE}")], [SEARCH])
    markers = chat._tokens.numbers.values()
    assert [token for token in hostile if token in markers] == [token for token in plain if token in markers]


def test_results_that_do_not_fit_the_calls_are_written_again():
    chat = chat_format("qwen2_5")
    assert chat.reply_ids([RESULT, RESULT], chat.turn_ids(Action("", (CALL,)))) is None
    assert chat.reply_ids([RESULT], chat.turn_ids(Action("It is warm."))) is None
