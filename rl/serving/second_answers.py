"""Second answers: in idle time, one at a time, another answer to what people asked, so that the two can be compared.

The version in use and a candidate answer the other's prompts; without a candidate the version in use answers its own again.
Which prompts is drawn at random: what is cleverer gains little here (https://arxiv.org/abs/2604.02766); the second answer is
what gains."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import httpx
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from rl.base.errors import Interrupted
from rl.base.locks import try_lock
from rl.collect.feedback.kept_answers import AgentReader, read_kept_answers
from rl.models import Agent, AnswerPair, Trace, TrainingRun
from rl.models.traces import answered_by, ended_by_itself, may_be_used
from rl.serving import machine
from rl.serving.gateway.answer_rows import store
from rl.serving.gateway.best_of import TEMPERATURE
from rl.serving.gateway.chat_request import ChatRequest
from rl.serving.gateway.choosing import Chooser
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.fields import check_field
from rl.serving.gateway.forms import Forms
from rl.serving.gateway.refusals import Refusal
from rl.serving.gateway.routing import KnownAgent, KnownKey, Route, Served
from rl.serving.gateway.table import load
from rl.serving.gateway.turns import Turns
from rl.serving.gateway.upstream import new_client

QUIET_SECONDS = 60.0
"""Without a request for so long the gateway is idle."""
ROUND_SECONDS = 30.0
"""A round of the queue begins no answer after so long: the worker has other work."""
logger = logging.getLogger(__name__)

SOURCE = "second_answer"
"""The source of traces that nobody asked for."""
NEWEST = 500
"""Answers that are looked at, the newest of each version."""
_ROLES = ("system", "user", "assistant")
_LOOK_SECONDS: Final = 0.2
_SAME: Final = ("temperature", "top_p", "max_tokens", "max_completion_tokens", "response_format")
"""Parameters of the first answer that the second is asked with too."""


@dataclass(frozen=True, slots=True)
class SecondAnswerPlan:
    first: UUID
    by: Served
    """Who gives the second answer."""
    repeats: bool
    """The same version answered before."""


def waiting(agent: Agent) -> QuerySet[AnswerPair]:
    """Pairs that were made in idle time and that nobody has compared."""
    return AnswerPair.find_open(AnswerPair.Origin.SECOND, agent=agent)


def contestants(known: KnownAgent) -> list[Served]:
    """The version in use, and the newest that was made after it and answers; empty where nothing is served."""
    champion = next((row for row in known.deployed if row.alias == "champion"), None)
    live = known.serving(champion.version_id if champion else None)
    if live is None or live.upstream is None:
        return []
    newer = [row for row in known.deployed if row.upstream and (row.version_id or 0) > (live.version_id or 0)]
    return [live, max(newer, key=lambda row: row.version_id or 0)] if newer else [live]


def choose(agent: Agent, sides: Sequence[Served], chance: random.Random) -> SecondAnswerPlan | None:
    """None where no prompt is left."""
    rows = [(side, pk) for side in sides for pk in _newest(_open_answers(agent, side))]
    if not rows:
        return None
    side, first = chance.choice(rows)
    other = next((row for row in sides if row.version_id != side.version_id), side)
    return SecondAnswerPlan(first, other, other is side)


def _open_answers(agent: Agent, side: Served) -> QuerySet[Trace]:
    """Its whole answers without tools, except to prompts that a pair compares already."""
    paired = AnswerPair.objects.filter(Q(left=OuterRef("pk")) | Q(right=OuterRef("pk")))
    doubled = Trace.objects.filter(agent=agent, source=SOURCE, prompt_key=OuterRef("prompt_key"))
    by = Q(model_version=side.version_id) if side.version_id is not None else answered_by(None)
    return (
        Trace.objects.filter(by, may_be_used(), ended_by_itself(), agent=agent, tool_calls=[])
        .exclude(Q(response="") | Q(source=SOURCE) | Q(details__has_key="tools"))
        .exclude(Q(Exists(paired)) | Q(Exists(doubled)))
        .order_by("-created_at", "id")
    )


def _newest(rows: QuerySet[Trace]) -> list[UUID]:
    return [
        pk
        for pk, prompt in rows.values_list("pk", "prompt")[:NEWEST]
        if prompt and prompt[-1]["role"] == "user" and all(message["role"] in _ROLES for message in prompt)
    ]


def why_not_now() -> str:
    """Empty while the machine is idle."""
    if TrainingRun.objects.filter(state__in=TrainingRun.ACTIVE).exists():
        return "a training is at work or waits for its turn"
    return "" if _is_quiet() else "the gateway had a request a moment ago"


def tick() -> int:
    """What the queue does once a minute; how many pairs were made."""
    if why_not_now():
        return 0
    return make(Agent.objects.filter(second_answers__gt=0).order_by("pk"), seconds=ROUND_SECONDS)


def make(agents: Iterable[Agent], *, limit: int | None = None, seconds: float = float("inf")) -> int:
    """At most ``limit`` pairs, and of each agent no more than may wait; how many were made. It ends early when somebody asks
    the gateway or a training comes, and does nothing while another process is at it."""
    ends, made, reader = time.monotonic() + seconds, 0, AgentReader(read_kept_answers)
    with _alone() as alone:
        for agent in agents if alone else ():
            for _ in range(agent.second_answers - waiting(agent).count()):
                over = made == limit or time.monotonic() > ends or why_not_now()
                if over or not _make_one(agent, reader):
                    break
                made += 1
    return made


def _make_one(agent: Agent, reader: AgentReader) -> bool:
    """False where nothing can be made for this agent now. ``reader``: of what answers are kept to."""
    known = load(reader).agents.get(agent.name.lower())
    choice = choose(agent, contestants(known), random.SystemRandom()) if known else None
    if known is None or choice is None or (choice.repeats and known.closed):  # it would choose the same again
        return False
    first = Trace.objects.get(pk=choice.first)
    try:
        exchange = answer(known, first, choice, _is_quiet)
    except Interrupted:
        return False
    except Refusal as refusal:
        logger.warning("%s gave no second answer: %s", choice.by.version, refusal)
        return False
    return _store(agent, first, exchange)


def _store(agent: Agent, first: Trace, exchange: Exchange) -> bool:
    """Neither without the other, but for an answer in the same words, which makes no pair. The first one may be gone
    meanwhile; sides are drawn."""
    document = {**exchange.document(), "source": SOURCE, "prompt": first.prompt}
    if not document["response"].strip():
        return False
    sides = [first.pk, exchange.id]
    random.SystemRandom().shuffle(sides)
    with transaction.atomic():
        if not Trace.objects.select_for_update().filter(pk=first.pk).exists():
            return False
        store({exchange.id: document})
        if document["response"] == first.response:
            return False
        pair = AnswerPair.Origin.SECOND
        AnswerPair.objects.create(agent=agent, left_id=sides[0], right_id=sides[1], origin=pair)
    return True


def _is_quiet() -> bool:
    since = machine.seconds_since_request()
    return not machine.busy() and (since is None or since >= QUIET_SECONDS)


@contextmanager
def _alone() -> Iterator[bool]:
    """Whether no other process makes second answers at this moment."""
    file = settings.DATA_DIR / "locks" / "second_answers.lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as handle:
        yield try_lock(handle.fileno())


def answer(known: KnownAgent, first: Trace, choice: SecondAnswerPlan, may_go_on: Callable[[], bool]) -> Exchange:
    """One more, straight from the version's server: nobody's traffic. Raises Refusal, and Interrupted as soon as it may not
    go on: the server is told to stop by the broken connection."""
    # whoever sends traces writes them: what the gateway would refuse is left out
    given = first.details.get("parameters")
    parameters: dict[str, Any] = {}
    for name in _SAME:
        with suppress(Refusal):
            parameters |= check_field(name, given) if isinstance(given, dict) else {}
    if choice.repeats and not parameters.get("temperature"):
        parameters["temperature"] = TEMPERATURE  # else the same words again
    document: dict[str, Any] = {"messages": first.prompt, "model": known.name, **parameters}
    exchange = Exchange(
        KnownKey(None, True, known.id),
        ChatRequest(document, known.name, tuple(first.prompt), unit="", session_id=""),
        Route(known, choice.by),
    )
    asyncio.run(_watch(exchange, may_go_on))
    return exchange


async def _watch(exchange: Exchange, may_go_on: Callable[[], bool]) -> None:
    async with new_client() as client:
        work = asyncio.create_task(_complete(client, exchange))
        while not work.done():
            await asyncio.wait({work}, timeout=_LOOK_SECONDS)
            if not work.done() and not await asyncio.to_thread(may_go_on):
                work.cancel()
                with suppress(asyncio.CancelledError):
                    await work
                raise Interrupted("somebody asks the gateway")
        await work


async def _complete(client: httpx.AsyncClient, exchange: Exchange) -> None:
    """As the gateway would."""
    forms, turns = Forms(client), Turns()
    chooser = Chooser(client, forms)
    if chooser.chooses(exchange):
        document = await chooser.answer(turns, exchange)
        await chooser.stop()
    else:
        document = await forms.complete(exchange)
    exchange.answer.take(document)
    exchange.answer.complete = True
