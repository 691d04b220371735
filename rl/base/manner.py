"""How a version is asked: whether it thinks before it answers, and what it is told with every question."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from rl.base.errors import UsageError

QUESTION: Final = "question"
SYSTEM: Final = "system"
PLACES: Final = (QUESTION, SYSTEM)
"""Behind the last question, where small models heed it, or at the end of the system prompt."""
LONGEST: Final = 500
"""Characters of an instruction."""


class Manner(NamedTuple):
    thinks: bool = False
    instruction: str = ""
    """Empty: none. What was learned under one holds under it alone."""
    instruction_place: str = QUESTION

    def tell(self, messages: Sequence[Mapping[str, Any]]) -> list[Any]:
        """The messages with the instruction; as they are where there is no question to put it behind. ``content`` may be
        OpenAI's list of parts."""
        asked = list(messages)
        if not self.instruction:
            return asked
        role = "user" if self.instruction_place == QUESTION else "system"
        last = next((index for index in reversed(range(len(asked))) if asked[index]["role"] == role), None)
        if last is not None:
            asked[last] = {**asked[last], "content": _append(asked[last].get("content"), self.instruction)}
        elif self.instruction_place == SYSTEM:
            asked.insert(0, {"role": "system", "content": self.instruction})
        return asked


def check_instruction(text: Any) -> str:
    """Raises UsageError for anything but a text of at most LONGEST characters."""
    if not isinstance(text, str) or len(text) > LONGEST:
        raise UsageError(f"instruction must be a text of at most {LONGEST} characters")
    return text


ASKED_PLAINLY: Final = Manner()


def _append(content: Any, instruction: str) -> Any:
    if isinstance(content, list):
        return [*content, {"type": "text", "text": instruction}]
    return f"{content}\n\n{instruction}" if content else instruction
