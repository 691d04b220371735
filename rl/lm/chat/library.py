"""Tool calls as transformers reads them: by a response template, of the tokenizer's own or one that TRL has for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from transformers import PreTrainedTokenizerBase
from trl.chat_template_utils import add_response_schema

from rl.environments.contract import Action, ToolRequest
from rl.environments.dialects import action_of, request_of, unreadable


def response_template(tokenizer: PreTrainedTokenizerBase) -> Any:
    """None where nobody knows one."""
    if own := getattr(tokenizer, "response_template", None):
        return own
    try:
        return add_response_schema(SimpleNamespace(chat_template=tokenizer.chat_template)).response_template
    except ValueError:
        return None


class LibraryReader:
    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, template: Any, opening: str, example: str, beginning: str
    ) -> None:
        """``opening``: of a turn, with what stands before it; ``example``: a call; ``beginning``: how each begins."""
        self._tokenizer, self._template, self._opening = tokenizer, template, opening
        self._example, self._beginning = example, beginning

    def __call__(self, text: str, tools: Sequence[Mapping[str, Any]]) -> Action:
        """Never raises. Arguments get the types of the tool's schema."""
        try:
            message = self._tokenizer.parse_response(
                text, schema=self._template, prefix=self._opening, tools=list(tools) or None
            )
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            return self._unreadable("", str(error).partition("\n")[0])
        answer, calls = str(message.get("content") or "").strip(), message.get("tool_calls") or []
        if not calls and self._beginning.split()[0] in answer:
            return self._unreadable(answer, "it is not complete")
        return action_of(answer, calls, _request, self._example)

    def _unreadable(self, text: str, reason: str) -> Action:
        return unreadable(text, reason, self._example)


def _request(call: Any) -> ToolRequest:
    """Raises ValueError."""
    document = call.get("function", call) if isinstance(call, dict) else call
    if isinstance(document, dict) and document.get("arguments") is None:
        document = {**document, "arguments": {}}
    return request_of(document, "arguments")
