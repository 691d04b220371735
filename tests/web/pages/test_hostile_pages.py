"""Whatever is stored, no page works on it for long: every address of the site and of the admin, on hostile texts."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.urls import URLPattern
from django.utils import timezone

from rl.models import Agent, AnswerPair, Claim, Episode, Evaluation, Feedback, RatingQueue, Trace, TrainingRun
from rl.models.traces import GATEWAY
from rl.queues import editing
from rl.web import formatting, trace_lists
from rl.web.formatting import AS_IT_IS, Formatter
from rl.web.urls import urlpatterns
from tests.admin.records import make_loop
from tests.admin.test_changelists import MODELS, list_of, record_of

pytestmark = pytest.mark.database


BYTES = 600_000
"""Of a stored trace: a quarter of what one request may bring, so that the walk does not take minutes."""
CPU_SECONDS = 10.0
"""Room for a page that may take one; before there were bounds, most of these took minutes, or all memory."""
BLOCK = "```java\n" + "\n" * 2_300 + "```\n"
SLOW = "```java\n" + "\n" * 9_900 + "```"
NESTED: Any = json.loads("[" * 60 + "1," * 100_000 + "1" + "]" * 60)
HOSTILE: dict[str, dict[str, Any]] = {
    "slow code": {"prompt": [{"role": "user", "content": BLOCK + str(number)} for number in range(250)]},
    "slow answer": {"response": SLOW},
    "one text": {"prompt": [{"role": "user", "content": "a" * BYTES}], "response": "\n" * BYTES},
    "many messages": {"prompt": [{"role": "tool", "content": "a"}] * 15_000},
    "many calls": {"tool_calls": [{"name": "x"}] * 50_000},
    "many arguments": {"tool_calls": [{"name": "x", "arguments": {str(n): n for n in range(50_000)}}]},
    "deep values": {"state": NESTED, "action": NESTED, "details": {"a": NESTED}},
    "many names": {"details": {str(n): n for n in range(50_000)}, "state": {str(n): "" for n in range(50_000)}},
    "many insights": {"reasoning_steps": [{"content": "x", "insights": ["a"] * 50_000, "issues": ["a"] * 50_000}]},
    "many tasks": {"tasks": [{"status": "failed", "task_id": "1"}] * 15_000},
    "one call in many turns": {
        "details": {"episode": {"turns": [{"said": "```\n" * 2_000, "calls": [0] * 25_000}] * 5}},
        "tool_calls": [{"name": "x", "result": {"a": ["b"] * 20_000}, "arguments": {"a": "b" * 20_000}}],
    },
    "many turns": {"details": {"episode": {"turns": [{"said": "a", "observation": "<tool_call>" * 50}] * 1_000}}},
}
WALKS_ALL = "slow code"
OF_TRACES = (Trace, Feedback, Episode, AnswerPair)
"""Whose pages in the admin show what differs from one hostile text to the next. One of them is walked with all others."""
POSTED = (
    "try_answer",
    "try_format",
    "try_draw",
    "try_side",
    "try_vote",
    "try_instruction",
    "try_answer_as",
    "try_train",
    "try_rating",
    "rate_decisions",
    "traces_picked",
)
"""Addresses that show nothing."""
ELSEWHERE = (
    "logout",
    "otlp-traces",
    "version_file",
    "rate_by_invite",
    "experiment",
    "experiment_look",
    "demo",
    "run_plan",
    "run_plan_rows",
    "words",
)
"""They end a session, take spans in, send a file, or show no stored text; the demonstration exists with DEBUG only, and the
plan of a run and its page make the rows of a training."""


@pytest.fixture
def formatter(monkeypatch) -> Iterator[Formatter]:
    made = Formatter()
    monkeypatch.setattr(formatting, "FORMATTER", made)
    yield made
    made.end_child()


@pytest.fixture(params=HOSTILE)
def stored(request, agent: Agent, data_dir) -> TrainingRun:
    run = make_loop(agent)
    hostile = HOSTILE[request.param]
    Trace.objects.update(source=GATEWAY, session_id="try-1-a", **hostile)
    Feedback.objects.update(notes="a" * 4_000, text=BLOCK * 40, kind=Feedback.Kind.CORRECTION)
    sides = {name: {"answer": BLOCK * 2 + name, "errors": ["refusal"]} for name in ("base", "new")}
    Evaluation.objects.update(report={"guards": {"samples": [{"prompt": BLOCK, **sides}] * 40}})
    Claim.objects.update(rater="user:bob", decided_at=timezone.now(), state=Claim.State.DECIDED)
    return run


def cpu_of(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def addresses(run: TrainingRun, models: Sequence[type[Model]]) -> Iterator[str]:
    trace, version = run.agent.traces.first(), run.agent.versions.get()
    queue, claim = RatingQueue.objects.get(), Claim.objects.get()
    values = {"queue": queue.name, "claim": str(claim.pk), "agent": run.agent.name, "trace": str(trace.pk)}
    for pattern in urlpatterns:
        if not isinstance(pattern, URLPattern) or pattern.name in (*POSTED, *ELSEWHERE):
            continue
        name = version.name if pattern.name == "version" else run.agent.name
        pk = str(run.pk if pattern.name in ("run", "run_progress", "run_rows") else trace.pk)
        path = f"/{pattern.pattern}"
        for key, value in {**values, "name": name, "pk": pk}.items():
            for kind in ("str", "int", "uuid"):
                path = path.replace(f"<{kind}:{key}>", value)
        assert "<" not in path, f"{path}: give it a value, or name it in ELSEWHERE"
        yield f"{path}?agent={run.agent.name}"
    yield from (f"/traces/{trace.pk}/?whole", "/traces/?find=aaaa", f"/traces/?find={'a' * 199}b", "/traces/?tag=x")
    for model in models:
        yield list_of(model)
        yield from (record_of(record) for record in first_of(model))


def first_of(model: type[Model]) -> list[Model]:
    return list(model._default_manager.order_by("pk")[:1])


@pytest.mark.process
@pytest.mark.slow
def test_no_page_works_long_on_what_is_stored(
    staff: Client, stored: TrainingRun, formatter: Formatter, request: pytest.FixtureRequest
):
    models = MODELS if request.node.callspec.params["stored"] == WALKS_ALL else OF_TRACES
    answers: dict[str, tuple[int, float]] = {}
    for address in addresses(stored, models):
        began = time.process_time()
        status = staff.get(address).status_code
        answers[address] = status, time.process_time() - began
    assert {address: status for address, (status, _) in answers.items() if status not in (200, 302)} == {}
    assert {address: seconds for address, (_, seconds) in answers.items() if seconds > CPU_SECONDS} == {}


@pytest.mark.process
def test_a_guest_who_looks_again_and_again_at_a_hostile_conversation_costs_next_to_nothing(
    client: Client, agent: Agent, formatter: Formatter
):
    for _ in range(3):
        Trace.objects.create(agent=agent, response=SLOW, prompt=HOSTILE["slow code"]["prompt"])
    queue = RatingQueue.objects.create(agent=agent, name="experts")
    client.post(f"/rate/by/{editing.token_of(editing.invite(queue, 'Dr. Dora'))}/")
    views = [cpu_of(lambda: client.get("/rate/support-chat/experts/")) for _ in range(6)]
    assert max(views) < CPU_SECONDS
    item = client.get("/rate/support-chat/experts/").context["items"][0]
    assert (len(item["before"]), item["earlier"]) == (100, 149)
    assert AS_IT_IS in item["answers"][0]["html"]
    page = client.get("/rate/support-chat/experts/").content.decode()
    assert "Messages before these, which are not shown: 149." in page


def test_a_search_that_takes_too_long_is_ended_and_the_page_says_so(staff: Client, agent: Agent, monkeypatch):
    Trace.objects.create(agent=agent, response="a" * BYTES, prompt=[{"role": "user", "content": "Where?"}])
    monkeypatch.setattr(trace_lists, "SECONDS", 0.001)
    monkeypatch.setattr(trace_lists, "_STEPS", 1)
    if connection.vendor == "postgresql":
        monkeypatch.setattr("rl.web.trace_lists.LONGEST", 200)
    page = staff.get("/traces/?find=b").content.decode()
    assert "the search took longer than 0.001 seconds, and was ended. These are the traces without that." in page
    assert "Where?" in page
    assert not Feedback.objects.exists()
