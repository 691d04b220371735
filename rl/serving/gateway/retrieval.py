"""What the dialects offer beside answers: responses that are read again or deleted, conversations, and a count of tokens."""

from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response

from rl.models import ApiKey
from rl.serving.dialects.dialect import AnswerHead, Document
from rl.serving.dialects.known import dialect_at
from rl.serving.dialects.responses import RESPONSES
from rl.serving.gateway.chat_request import read_object
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.gateway import Gateway, in_database, not_served
from rl.serving.gateway.packed_body import read_packed
from rl.serving.gateway.refusals import Refusal, json_response
from rl.serving.gateway.stored import StoredAnswer, delete_answer, find_answers, not_here

MOST_ITEMS: Final = 100


async def one_response(request: Request) -> Response:
    if request.query_params.get("stream") == "true":
        raise Refusal(400, "stream: a stored response is read whole", param="stream", code="unsupported_parameter")
    return json_response(as_response(await _find(request)))


async def delete_response(request: Request) -> Response:
    gateway: Gateway = request.app.state.gateway
    key, name = await gateway.caller(request, ApiKey.Scope.INGEST), request.path_params["name"]
    await in_database(delete_answer, key, name)
    return json_response({"id": name, "object": "response", "deleted": True})


async def input_items(request: Request) -> Response:
    """What a response answered, the newest first unless ``order`` is ``asc``; at most ``limit`` behind ``after``."""
    answer = await _find(request)
    items = [item for number, message in enumerate(answer.messages[:-1]) for item in _items(message, answer, number)]
    if request.query_params.get("order") != "asc":
        items.reverse()
    if after := request.query_params.get("after"):
        behind = [number for number, item in enumerate(items, 1) if item["id"] == after]
        items = items[behind[0] :] if behind else []
    limit = request.query_params.get("limit", "20")
    if not (limit.isascii() and limit.isdecimal() and 1 <= int(limit[:9]) <= MOST_ITEMS):
        raise Refusal(400, f"limit must be a whole number from 1 to {MOST_ITEMS}", param="limit", code="invalid_value")
    page = items[: int(limit)]
    ends = {"first_id": page[0]["id"] if page else None, "last_id": page[-1]["id"] if page else None}
    return json_response({"object": "list", "data": page, "has_more": len(items) > len(page), **ends})


async def new_conversation(request: Request) -> Response:
    """A name for a conversation, which begins with the first response that gives it."""
    gateway: Gateway = request.app.state.gateway
    await gateway.caller(request, ApiKey.Scope.INGEST)
    sent = read_object(await read_packed(request) or b"{}")
    if given := [name for name in ("items", "metadata") if sent.get(name)]:
        message = f"{given[0]} is not kept: a conversation begins with its first response"
        raise Refusal(400, message, param=given[0], code="unsupported_parameter")
    created = int(datetime.now(UTC).timestamp())
    body = {"id": f"conv_{uuid4().hex}", "object": "conversation", "created_at": created, "metadata": {}}
    return json_response(body)


async def count_tokens(request: Request) -> Response:
    gateway: Gateway = request.app.state.gateway
    key = await gateway.caller(request, ApiKey.Scope.CHAT, ApiKey.Scope.INGEST)
    asked = await gateway.read(request, key, dialect_at(request.url.path))
    route = await gateway.route(key, asked)
    if route.served.upstream is None:
        raise not_served(route)
    counted = await gateway.forms.count_tokens(Exchange(key, asked, route))
    return json_response({"input_tokens": counted})


async def _find(request: Request) -> StoredAnswer:
    gateway: Gateway = request.app.state.gateway
    key, name = await gateway.caller(request, ApiKey.Scope.INGEST, ApiKey.Scope.READ), request.path_params["name"]
    if answer := (await in_database(find_answers, key, [name])).get(name):
        return answer
    raise not_here(name)


def as_response(answer: StoredAnswer) -> dict[str, Any]:
    """A stored answer as the response that it was."""
    trace, details = answer.trace, answer.trace.details
    tools = {"tools": details["tools"]} if details.get("tools") else {}
    instructions = [{"role": "system", "content": answer.instructions}] if answer.instructions is not None else []
    asked = {**details.get("parameters", {}), **tools, "messages": [*instructions, *answer.messages]}
    version = trace.model_version.name if trace.model_version else details.get("model_version", "base")
    model = f"{trace.agent.name}@{version}"
    head = AnswerHead(answer.id, model, int(trace.occurred_at.timestamp()), asked, answer.kept)
    thoughts = "".join(step["content"] for step in trace.reasoning_steps if step.get("step_type") == "reasoning")
    message = {**answer.messages[-1], "reasoning_content": thoughts}
    usage = {"prompt_tokens": trace.tokens_in, "completion_tokens": trace.tokens_out}
    choice = {"index": 0, "message": message, "finish_reason": details.get("finish_reason")}
    known = {name: count for name, count in usage.items() if count is not None}
    response = RESPONSES.whole(head, {"choices": [choice], "usage": known})
    if not details.get("complete"):
        error = {"code": "server_error", "message": details.get("error", "")}
        response |= {"status": "failed", "incomplete_details": None, "error": error}
    return response


def _items(message: Document, answer: StoredAnswer, number: int) -> list[dict[str, Any]]:
    own = f"{answer.id.hex}_{number}"
    if message["role"] == "tool":
        result = {
            "type": "function_call_output",
            "call_id": message.get("tool_call_id", ""),
            "output": message["content"],
        }
        return [{"id": f"fco_{own}", "status": "completed", **result}]
    kind = "output_text" if message["role"] == "assistant" else "input_text"
    message_item = {"id": f"in_{own}", "type": "message", "role": message["role"], "status": "completed"}
    text = [{**message_item, "content": [{"type": kind, "text": message["content"]}]}] if message["content"] else []
    calls = [
        {
            "id": f"in_{own}_{position}",
            "type": "function_call",
            "call_id": call["id"],
            "status": "completed",
            **call["function"],
        }
        for position, call in enumerate(message.get("tool_calls", ()))
    ]
    return [*text, *calls]
