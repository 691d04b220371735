"""Names of users and conversations: whatever people write, on one line."""

from typing import Any

import pytest

from rl.serving.dialects.dialect import ChatForm
from rl.serving.gateway.chat_request import parse_request
from rl.serving.gateway.refusals import Refusal
from rl.serving.gateway.routing import KnownKey

KEY = KnownKey(1, True, None)
NAMES = [
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u5c71\u7530\u3000\u592a\u90ce",
    "Anne\u00a0Marie",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "a b",
    "\u00e4",
]


def unit(**fields: Any) -> str:
    body = {"model": "support-chat", "messages": [{"role": "user", "content": "Q?"}], **fields}
    return parse_request(ChatForm(body), {}, KEY).unit


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_any_writing_is_taken_as_it_is(name: str):
    assert unit(user=name) == unit(safety_identifier=name) == unit(metadata={"session_id": name}) == name


@pytest.mark.parametrize("name", ["a\nb", "\x07", "a\tb", "\x9b", "\u2028", "\u202e"])
def test_control_characters_are_refused_by_name(name: str):
    with pytest.raises(Refusal, match=f"user contains U\\+{ord(name.strip('ab')):04X}"):
        unit(user=name)
