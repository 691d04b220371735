"""A loop of tools with the official client: one trace, which every id that the client got can rate."""

import json
import os
import urllib.request
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from django.db import connection

from tests.postgres import OnPostgres, made
from tests.serving.gateway.conftest import Gateway, filled, serving
from tests.serving.gateway.upstream_double import UpstreamDouble
from tests.waiting import until

pytestmark = pytest.mark.process


TOOLS = [{"type": "function", "function": {"name": "track", "parameters": {"type": "object"}}}]
ARGUMENTS = {
    "call a tool": {"number": "4711"},
    "call a function": {"number": "4711"},
    "call a custom tool": {"input": "4711"},
}
"""By what the double is told: it calls its tool whenever it is told so."""


@pytest.fixture(scope="module")
def gateway(upstream: UpstreamDouble, tmp_path_factory, request) -> Iterator[Gateway]:
    """On the database that the tests run on."""
    if connection.vendor == "sqlite":
        yield request.getfixturevalue("prepared_gateway")
        return
    folder = tmp_path_factory.mktemp("gateway") / "data"
    folder.mkdir()
    with made(os.environ["DATABASE_URL"]) as url:
        site = OnPostgres(folder, url)
        with serving(site, filled(site, upstream), upstream) as found:
            yield found


@pytest.fixture(scope="session")
def prepared_gateway(prepared, upstream: UpstreamDouble) -> Iterator[Gateway]:
    with serving(*prepared, upstream) as found:
        yield found


def whole(gateway: Gateway, messages: list[Any]) -> tuple[str, dict[str, Any]]:
    said = gateway.client().chat.completions.create(model="support-chat", messages=messages, tools=TOOLS, user="anna")
    return said.id, said.choices[0].message.model_dump(exclude_none=True)


def streamed(gateway: Gateway, messages: list[Any]) -> tuple[str, dict[str, Any]]:
    with gateway.client().chat.completions.stream(
        model="support-chat", messages=messages, tools=TOOLS, user="anna"
    ) as stream:
        for _ in stream:
            pass
        said = stream.get_final_completion()
    message = said.choices[0].message.model_dump(exclude_none=True)
    for call in message.get("tool_calls", ()):
        call["function"].pop("parsed_arguments", None)
    return said.id, {
        name: message[name] for name in ("role", "content", "tool_calls", "function_call") if message.get(name)
    }


def run(gateway: Gateway, ask: Any, question: str, order: str) -> list[str]:
    """The ids of all answers."""
    messages: list[Any] = [{"role": "user", "content": question}, {"role": "user", "content": order}]
    results, ids = [order, "in Bonn"], []
    while True:
        answer_id, message = ask(gateway, messages)
        ids.append(answer_id)
        if not message.get("tool_calls") and not message.get("function_call"):
            return ids
        messages.append(message)
        if "function_call" in message:
            messages.append({"role": "function", "name": "track", "content": results.pop(0)})
        for call in message.get("tool_calls", ()):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": results.pop(0)})


def rate(gateway: Gateway, trace: str) -> dict[str, Any]:
    body = json.dumps({"trace": trace, "scale": "thumb", "value": 1, "rater": f"customer {trace}"}).encode()
    headers = {"Authorization": f"Bearer {gateway.keys['all']}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{gateway.url}/api/v1/feedback/", body, headers)) as reply:
        return json.load(reply)


# OpenAI's client reads no custom calls in streams
@pytest.mark.parametrize(("ask", "order"), [*product([whole], ARGUMENTS), *product([streamed], list(ARGUMENTS)[:2])])
def test_a_loop_of_tools_is_one_trace_and_every_id_of_it_rates_it(gateway: Gateway, ask, order: str):
    question = f"{order}, {ask.__name__}"
    ids = run(gateway, ask, question, order)
    assert len(ids) == 3
    assert {rate(gateway, answer_id)["trace"] for answer_id in reversed(ids)} == {ids[-1]}
    ids_of_parts = "SELECT id FROM rl_runpart WHERE trace_id = ?"
    until(lambda: not gateway.pending)
    key = ids[-1] if connection.vendor == "postgresql" else ids[-1].replace("-", "")
    parts = {str(part).replace("-", "") for (part,) in gateway.site.query(ids_of_parts, key)}
    assert parts == {answer_id.replace("-", "") for answer_id in ids[:-1]}
    row = gateway.site.query("SELECT prompt, tool_calls, llm_calls FROM rl_trace WHERE id = ?", key)[0]
    prompt, calls = (json.loads(value) if isinstance(value, str) else value for value in row[:2])
    assert [message["content"] for message in prompt] == [question, order]
    assert [(call["arguments"], call["result"]) for call in calls] == [
        (ARGUMENTS[order], order),
        (ARGUMENTS[order], "in Bonn"),
    ]
    assert row[2] == 3
