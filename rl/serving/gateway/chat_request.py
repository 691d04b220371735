"""A request of a client: the fields that pass, and what the gateway itself needs of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rl.base.errors import UsageError
from rl.base.manner import SYSTEM
from rl.base.messages import as_data
from rl.base.records import Message
from rl.base.slugs import check_name
from rl.base.template_settings import template_settings
from rl.collect.feedback.tokens import MOST_RATERS
from rl.collect.limits import MAX_ID_LENGTH
from rl.collect.otlp.history import in_words
from rl.collect.otlp.messages import Part, as_text, as_value, calls_in, full_message
from rl.collect.otlp.spans import Requested
from rl.collect.storable import pointer_to_unstorable, unstorable
from rl.serving.dialects.chat import CHAT
from rl.serving.dialects.dialect import ApiDialect, ChatForm
from rl.serving.gateway.fields import choose_fields
from rl.serving.gateway.refusals import Refusal, unsupported_content
from rl.serving.gateway.routing import KnownKey, Route

SESSION_HEADER: Final = "x-ratchet-session"
RATERS_HEADER: Final = "x-ratchet-raters"
LENGTHS: Final = ("max_tokens", "max_completion_tokens")
_STREAMING: Final = ("stream", "stream_options")
_PARTS: Final = {"image_url": "image", "input_audio": "audio"}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    document: dict[str, Any]
    """The body of the request: what passes of it (``fields.py``)."""
    model: str
    messages: tuple[Message, ...]
    """As texts, with calls of tools as data beside the words; without a system prompt of the agent's."""
    unit: str
    session_id: str
    raters: int = 1
    """How many may judge the answer by its token."""
    left_out: Sequence[str] = ()
    """Names of fields that do not pass."""
    dialect: ApiDialect = CHAT
    form: ChatForm = field(default_factory=lambda: ChatForm({}))
    """What the dialect made of the body."""

    @property
    def kept(self) -> Mapping[str, Any]:
        return self.form.kept

    @property
    def prompt(self) -> tuple[Message, ...]:
        """All that the model is given, in words alone."""
        return in_words(self.messages)

    @property
    def streams(self) -> bool:
        return self.document.get("stream") is True

    def as_whole(self, **changed: Any) -> ChatRequest:
        """The same without a stream. ``changed``: fields with other values, None for none."""
        document = {name: value for name, value in {**self.document, **changed}.items() if value is not None}
        return replace(self, document={name: document[name] for name in document if name not in _STREAMING})

    def for_upstream(self, route: Route) -> dict[str, Any]:
        """Raises Refusal for what a server of ours cannot read."""
        upstream = route.upstream
        if route.served.is_ours and (part := find_media(self.document["messages"])):
            raise unsupported_content(f"{part} is not text, and the model of {route.model} reads texts alone", part)
        changed = {**self.document, "model": upstream.model}
        if self.streams:
            changed["stream_options"] = {"include_usage": True}
        if all(self.document.get(name) is None for name in LENGTHS):
            changed["max_tokens"] = route.agent.response_length
        changed |= {name: min(changed[name], upstream.context) for name in LENGTHS if name in changed}
        if route.served.is_ours:  # as the versions of ours were trained, unless the client asks otherwise
            # what keeps to a form does so from its first word on
            thinks = route.served.manner.thinks and not (route.agent.closed or route.agent.structure)
            given = self.document.get("chat_template_kwargs", {})
            changed["chat_template_kwargs"] = {**template_settings(thinks), **given}
            changed |= self._tools_of_choice()
            if changed.get("top_logprobs") == 0:  # llama.cpp leaves out that of the token itself, too
                changed["top_logprobs"] = 1
        return {**changed, "messages": with_system_prompt(self.document["messages"], self.messages, route)}

    def _tools_of_choice(self) -> dict[str, Any]:
        """The one that the choice names, demanded: llama.cpp passes over a choice that is not a word. None where none may be
        called: it would describe them all the same, and give a call as text."""
        choice = self.document.get("tool_choice")
        if not isinstance(choice, dict):
            return {"tools": None, "tool_choice": None} if choice == "none" else {}
        named = [tool for tool in self.document["tools"] if tool["function"]["name"] == choice["function"]["name"]]
        return {"tools": named, "tool_choice": "required"}


def find_media(messages: Sequence[Any]) -> str:
    """Where the first part stands that is not text, such as a picture; empty where there is none."""
    for index, message in enumerate(messages):
        content = message.get("content")
        for number, part in enumerate(content if isinstance(content, list) else ()):
            if part.get("type") != "text":
                return f"messages[{index}].content[{number}]"
    return ""


def with_system_prompt(messages: Sequence[Any], texts: Sequence[Message], route: Route) -> list[Any]:
    """Puts the agent's before them, where they have none and the server has it not in the model, and the version's
    instruction where it belongs. ``texts``: the messages as texts."""
    rules, manner = route.agent.system_prompt, route.served.manner
    is_known = route.served.knows_system_prompt and not (manner.instruction and manner.instruction_place == SYSTEM)
    if rules and not is_known and not any(text["role"] == "system" for text in texts):
        messages = [{"role": "system", "content": rules}, *messages]
    return manner.tell(messages)


def read_body(body: bytes) -> dict[str, Any]:
    """Raises Refusal for anything but a JSON object that names a model and can be stored."""
    sent = read_object(body)
    model = sent.get("model")
    if not isinstance(model, str) or not model:
        raise Refusal(400, "model must be the name of an agent", param="model", code="missing_model")
    return sent


def read_object(body: bytes) -> dict[str, Any]:
    """Raises Refusal for anything but a JSON object that can be stored."""
    try:
        sent = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {error}", code="invalid_json") from None
    if not isinstance(sent, dict):
        raise Refusal(400, "the body must be a JSON object", code="invalid_json")
    if problem := unstorable(sent):
        field = pointer_to_unstorable(sent)
        raise Refusal(400, f"{field or 'the body'} {problem}", code="invalid_json")
    return sent


def parse_request(form: ChatForm, headers: Mapping[str, str], key: KnownKey, dialect: ApiDialect = CHAT) -> ChatRequest:
    """``form``: what the dialect has made of the body. Raises Refusal."""
    document, left_out = choose_fields(form.document)
    messages = tuple(_message(given, f"messages[{index}]") for index, given in enumerate(document["messages"]))
    conversation = form.kept.get("conversation")
    session = _check_label(
        conversation or headers.get(SESSION_HEADER) or document.get("metadata", {}).get("session_id"),
        "conversation" if conversation else "session_id",
    )
    unit = headers.get("x-ratchet-unit") or document.get("user") or document.get("safety_identifier")
    unit = _check_label(unit, "user") or session or _conversation(key, messages)
    text = headers.get(RATERS_HEADER, "1")
    if not (text.isascii() and text.isdecimal() and len(text) < 9 and 1 <= int(text) <= MOST_RATERS):
        raise Refusal(400, f"{RATERS_HEADER} must be a whole number from 1 to {MOST_RATERS}", param=RATERS_HEADER)
    raters = int(text)
    document["messages"] = in_newest_form(document["messages"])
    return ChatRequest(document, document["model"], messages, unit, session, raters, left_out, dialect, form)


def _message(document: object, name: str) -> Message:
    if not isinstance(document, dict):
        raise Refusal(400, f"{name} is not an object", param=name)
    calls, call_id = parse_calls(document), document.get("tool_call_id")
    text = _text(document.get("content"), name)
    try:
        return full_message(document.get("role"), text, calls, call_id if isinstance(call_id, str) else "")
    except UsageError as error:
        raise Refusal(400, f"{name}.role: {error}", param=f"{name}.role") from None


def _text(content: object, name: str) -> str:
    """The texts of all parts; what is not text is named in brackets."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        return "\n".join(filter(None, map(_part, content)))
    raise Refusal(400, f"{name}.content must be text or a list of parts", param=f"{name}.content")


def _part(part: Mapping[str, Any]) -> str:
    text = part.get("text", part.get("refusal"))
    kind = str(part.get("type", "part"))
    return text if isinstance(text, str) else f"[{_PARTS.get(kind, kind)}]"


def parse_calls(message: Mapping[str, Any]) -> list[Requested]:
    """Reads its calls of tools, in whichever of OpenAI's forms; what has no name is left out."""
    return [
        Requested(call["name"], _arguments(call.get("arguments")), call["id"] if isinstance(call["id"], str) else "")
        for call in calls_in(message)
        if isinstance(call.get("name"), str) and call["name"]
    ]


def in_newest_form(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """With calls of functions and results of tools in place of ``function_call``, its answers of the role ``function``, and
    calls of custom tools: every server reads those. What had no id gets one that the strictest templates take."""
    made: list[Mapping[str, Any]] = []
    waiting: list[str] = []
    for number, message in enumerate(messages):
        calls = [call for call in calls_in(message) if call.get("name")]
        if message["role"] == "function":
            call_id = waiting.pop(0) if waiting else _new_id(number)
            message = {**message, "role": "tool", "tool_call_id": call_id}
        elif calls:
            waiting = [call["id"] or _new_id(number, position) for position, call in enumerate(calls)]
            message = message if _is_newest(message) else _with_calls(message, calls, waiting)
        made.append(message)
    return made


def _new_id(number: int, position: int = 0) -> str:
    return f"call{number:03d}{position:02d}"


def _is_newest(message: Mapping[str, Any]) -> bool:
    listed = message.get("tool_calls")
    are_custom = ("custom" in call for call in listed if isinstance(call, dict)) if isinstance(listed, list) else ()
    return not message.get("function_call") and not any(are_custom)


def _with_calls(message: Mapping[str, Any], calls: Sequence[Part], ids: Sequence[str]) -> dict[str, Any]:
    written = [
        as_data(call["name"], as_text(call.get("arguments") or "{}"), call_id)
        for call, call_id in zip(calls, ids, strict=True)
    ]
    return {**{name: value for name, value in message.items() if name != "function_call"}, "tool_calls": written}


def _arguments(arguments: object) -> Any:
    """The object that is written in the text, unless a database could not hold it."""
    parsed = as_value(arguments)
    return arguments if unstorable(parsed) else parsed


def _check_label(value: object, name: str) -> str:
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or len(value) > MAX_ID_LENGTH:
        raise Refusal(400, f"{name} must be text of at most {MAX_ID_LENGTH} characters", param=name)
    try:
        return check_name(value, name)
    except UsageError as error:
        raise Refusal(400, str(error), param=name) from None


def _conversation(key: KnownKey, messages: Sequence[Message]) -> str:
    """The same for every turn: it sees the messages up to the first of the user alone."""
    first = next((index for index, message in enumerate(messages) if message["role"] == "user"), len(messages))
    beginning = [[message["role"], message["content"]] for message in messages[: first + 1]]
    digest = hashlib.sha256(json.dumps([key.id, beginning]).encode()).hexdigest()
    return f"conversation:{digest[:32]}"
