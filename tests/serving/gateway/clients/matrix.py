"""The table of docs/clients.md: what became of each call of each client, from the answer to a row of training."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from django.conf import settings

from tests.serving.gateway.conftest import Gateway
from tests.waiting import until

PAGE = settings.BASE_DIR / "docs/clients.md"
HEAD = "| client | version | call | works | stored | ratable | trainable |\n|---|---|---|---|---|---|---|\n"


@dataclass(frozen=True)
class Call:
    client: str
    version: str
    call: str
    agent: str
    by: str
    """Where the client has the id of the answer."""
    question: str
    id: str | None = None
    answer: Any = None
    """The text, or the arguments of the tool that was called."""
    error: str = ""


def calls_of(output: str, agent: str) -> list[Call]:
    """What a program printed, beside what its clients did."""
    return [Call(agent=agent, **json.loads(line)) for line in output.split("\n") if line.startswith('{"client"')]


def walk(gateway: Gateway, calls: Sequence[Call], folder: Path) -> list[str]:
    """The rows of the table. Fails where a call failed, or is not stored as it was."""
    assert {call.call: call.error for call in calls if call.error} == {}
    assert all(call.answer for call in calls)
    traces = [until(lambda call=call: stored(gateway, call)) for call in calls]
    ratable = [is_rated(gateway, call, trace) for call, trace in zip(calls, traces, strict=True)]
    for call, trace, done in zip(calls, traces, ratable, strict=True):
        assert done or rate(gateway, call.agent, trace["id"]).status_code == 201  # as on its page
    learned = {agent: trained_on(gateway, agent, folder) for agent in {call.agent for call in calls}}
    return [
        row(call, done, (call.question, trace["response"]) in learned[call.agent])
        for call, trace, done in zip(calls, traces, ratable, strict=True)
    ]


def row(call: Call, ratable: bool, trainable: bool) -> str:
    cells = (call.client, call.version, call.call, "yes", "yes", call.by if ratable else "no", yes(trainable))
    return f"| {' | '.join(cells)} |"


def yes(done: bool) -> str:
    return "yes" if done else "no"


def stored(gateway: Gateway, call: Call) -> dict[str, Any] | None:
    """The trace whose last question is that of the call, once it has the answer that the client was given."""
    in_json = json.dumps(call.question)[1:-1]
    of_agent = "agent_id = (SELECT id FROM rl_agent WHERE name = ?)"
    for row in gateway.query(f"SELECT * FROM rl_trace WHERE {of_agent} AND instr(prompt, ?)", call.agent, in_json):
        prompt, tool_calls = json.loads(row["prompt"]), json.loads(row["tool_calls"])
        arguments = tool_calls[-1]["arguments"] if tool_calls else None
        if prompt[-1]["content"] == call.question and call.answer in (row["response"], arguments):
            return row
    return None


def is_rated(gateway: Gateway, call: Call, trace: dict[str, Any]) -> bool:
    """By the id that the client has, in one call."""
    answer = rate(gateway, call.agent, call.id) if call.id else None
    return answer is not None and answer.status_code == 201 and UUID(answer.json()["trace"]) == UUID(trace["id"])


def rate(gateway: Gateway, agent: str, name: str) -> httpx.Response:
    rating = {"trace": name, "rater": "anna", "scale": "thumb", "value": 1}
    key = {"Authorization": f"Bearer {gateway.keys.get(agent, gateway.keys['all'])}"}
    return httpx.post(f"{gateway.url}/api/v1/feedback/", json=rating, headers=key)


def trained_on(gateway: Gateway, agent: str, folder: Path) -> set[tuple[str, str]]:
    """Questions and answers that are rows to learn from, as good ones."""
    path = folder / f"{agent}.jsonl"
    gateway.site.run(
        "export_training_data", "--agent", agent, "--format", "kto", "--split", "all", "--output", str(path)
    )
    rows = map(json.loads, path.read_text().strip().split("\n"))
    return {(row["prompt"][-1]["content"], row["completion"][-1]["content"]) for row in rows if row["label"]}


def table() -> list[str]:
    return PAGE.read_text().split(HEAD)[1].split("\n\n")[0].splitlines()


def client_of(line: str) -> str:
    return line.split(" | ")[0].removeprefix("| ")


def check(clients: Sequence[str], rows: Sequence[str]) -> None:
    """Compares the rows of these clients with what was seen. ``UPDATE_DOCS=1`` writes them."""
    on_page, seen = table(), sorted(rows, key=str.casefold)
    if os.environ.get("UPDATE_DOCS"):
        others = [line for line in on_page if client_of(line) not in clients]
        page = PAGE.read_text().replace("\n".join(on_page), "\n".join(sorted([*others, *seen], key=str.casefold)))
        PAGE.write_text(page)
    else:
        assert [line for line in on_page if client_of(line) in clients] == seen, "run this test with UPDATE_DOCS=1"
