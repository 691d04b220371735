"""OpenAI's chat completions, as they are; and its older completions of a text, which become a chat of one message."""

from typing import Any, Final

from rl.serving.dialects.dialect import (
    AnswerHead,
    ApiDialect,
    ChatForm,
    Chunk,
    Document,
    Earlier,
    UntranslatableRequest,
    event,
    openai_error,
)

_DONE: Final = b"data: [DONE]\n\n"
_PLACES: Final = {"messages": "prompt", "messages[0]": "prompt", "top_logprobs": "logprobs"}


def _as_chat(sent: dict[str, Any], _: Earlier) -> ChatForm:
    return ChatForm(sent)


def _whole_chat(head: AnswerHead, completion: Document) -> dict[str, Any]:
    return {**completion, "id": str(head.id), "model": head.model}


class ChatStream:
    def __init__(self, head: AnswerHead) -> None:
        self._head = head
        self._wants_usage = bool(head.document.get("stream_options", {}).get("include_usage"))

    def write(self, chunk: Chunk) -> bytes:
        """The chunk with the usage goes to clients that asked for it."""
        if not self._wants_usage and "usage" in chunk:
            chunk = {name: value for name, value in chunk.items() if name != "usage"}
            if not chunk["choices"]:
                return b""
        return event(self._write_chunk(chunk))

    def end(self) -> bytes:
        return _DONE

    def fail(self, status: int, error: Document) -> bytes:
        return event(openai_error(status, error))

    def _write_chunk(self, chunk: Chunk) -> dict[str, Any]:
        return _whole_chat(self._head, chunk)


CHAT: Final = ApiDialect("chat", "/v1/chat/completions", _as_chat, _whole_chat, ChatStream, openai_error)


def _from_text(sent: dict[str, Any], _: Earlier) -> ChatForm:
    """Raises UntranslatableRequest for tokens, several prompts, and a text to be filled in between two."""
    prompt = sent.pop("prompt", None)
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str) or not prompt:
        raise UntranslatableRequest("prompt must be one text, with at least one character", "prompt")
    if sent.get("suffix"):
        raise UntranslatableRequest(
            "suffix is not passed on: answers go on, and fill nothing in", "suffix", "unsupported_parameter"
        )
    if isinstance(sent.get("logprobs"), int):  # a number here, true or false in chats
        sent["top_logprobs"], sent["logprobs"] = sent["logprobs"], True
    echo = {"echo": True} if sent.pop("echo", None) is True else {}
    return ChatForm({**sent, "messages": [{"role": "user", "content": prompt}]}, echo, _PLACES)


def _whole_text(head: AnswerHead, completion: Document) -> dict[str, Any]:
    choices = [
        _text_choice(head, choice, (choice.get("message") or {}).get("content"), number)
        for number, choice in enumerate(completion.get("choices") or ())
    ]
    return {**_text_head(head), "choices": choices, "usage": completion.get("usage")}


def _text_head(head: AnswerHead) -> dict[str, Any]:
    return {"id": f"cmpl-{head.id}", "object": "text_completion", "created": head.created, "model": head.model}


def _text_choice(
    head: AnswerHead, choice: Document, text: str | None, number: int, begins: bool = True, offset: int = 0
) -> Document:
    """``offset``: characters that were given before it."""
    echo = head.document["messages"][-1]["content"] if begins and head.kept.get("echo") else ""
    return {
        "text": echo + (text or ""),
        "index": choice.get("index", number),
        "logprobs": _text_logprobs(choice, offset + len(echo)),
        "finish_reason": choice.get("finish_reason"),
    }


def _text_logprobs(choice: Document, offset: int) -> Document | None:
    """In the four lists of the older API. ``offset``: characters before the answer."""
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not content:
        return None
    offsets = []
    for token in content:
        offsets.append(offset)
        offset += len(token.get("token", ""))
    return {
        "tokens": [token.get("token") for token in content],
        "token_logprobs": [token.get("logprob") for token in content],
        "top_logprobs": [
            {other.get("token"): other.get("logprob") for other in token.get("top_logprobs") or ()} for token in content
        ],
        "text_offset": offsets,
    }


class TextStream(ChatStream):
    _begins, _offset = True, 0

    def _write_chunk(self, chunk: Chunk) -> dict[str, Any]:
        choices = []
        for number, choice in enumerate(chunk.get("choices") or ()):
            text = (choice.get("delta") or {}).get("content")
            choices.append(_text_choice(self._head, choice, text, number, self._begins, self._offset))
            self._begins, self._offset = False, self._offset + len(choices[-1]["text"])
        usage = {"usage": chunk["usage"]} if chunk.get("usage") else {}
        return {**_text_head(self._head), "choices": choices, **usage}


COMPLETIONS: Final = ApiDialect("completions", "/v1/completions", _from_text, _whole_text, TextStream, openai_error)
