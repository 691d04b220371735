"""All dialects, and which of them is spoken at an address."""

from typing import Final

from rl.serving.dialects.chat import CHAT, COMPLETIONS
from rl.serving.dialects.dialect import ApiDialect
from rl.serving.dialects.messages import MESSAGES
from rl.serving.dialects.responses import RESPONSES

DIALECTS: Final = (CHAT, COMPLETIONS, RESPONSES, MESSAGES)


def dialect_at(path: str) -> ApiDialect:
    """The chats' where it is the address of none."""
    return next((known for known in DIALECTS if f"{path}/".startswith(f"{known.path}/")), CHAT)
