"""Where a version heeds an instruction: a dry run on past questions, answered by the version in use without it, and told it
in each place. Nothing of that is stored.

An answer heeds the instruction where it can be told from the one without it, by what the instruction did to the answers to
all other questions:

    score(answer) = sum over its marks m of log((with_m + 1/2) / (without_m + 1/2)),   heeded: score(with) > score(without)

with_m and without_m count the other questions whose answer has m; marks are words, lengths and the form.
So what changes at random is heeded in half of the answers, and what is always shorter, or French, in all."""

import asyncio
import logging
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from rl.base.errors import UsageError
from rl.base.manner import PLACES, QUESTION, SYSTEM
from rl.base.measurements import wilson
from rl.data_formatter.degeneration import words_of
from rl.models import Agent, Deployment, ModelVersion, UserTurns
from rl.serving.gateway.chat_request import ChatRequest
from rl.serving.gateway.exchange import Exchange, columns_of
from rl.serving.gateway.forms import Forms
from rl.serving.gateway.refusals import Refusal
from rl.serving.gateway.routing import KnownKey, Route
from rl.serving.gateway.table import load
from rl.serving.gateway.turns import Turns
from rl.serving.gateway.upstream import new_client
from rl.serving.instructions import read_words
from rl.serving.machine import note_request

TOKENS: Final = 40
"""The length of an answer: what an instruction changes shows in its first sentences, or in that it ends before."""
LOOKED_THROUGH: Final = 300
"""Newest answers in which questions are looked for."""
_LENGTHS: Final = (3, 6, 10, 15, 20, 25, 30, 40)
_FORM: Final = {
    "lists": r"(?m)^\s*(?:\d+[.)]|[-*•])\s",
    "lines": r"\n",
    "capitals": r"^[^a-z]*$",
    "asks": r"\?",
    "marks": r"\*\*",
}
WITHOUT: Final = ""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlaceFound:
    """What came of a dry run."""

    better: str
    heeded: Mapping[str, int]
    """Answers of each place that can be told from those without the instruction."""
    of: int
    """Questions that were answered in every way; half of them are heeded by chance."""

    @property
    def is_sure(self) -> bool:
        """Whether it is heeded there more often than by chance."""
        return bool(self.of) and wilson(self.heeded[self.better], self.of).low > 0.5


class DryRun:
    """``questions`` answered by what is in use of the agent, in at most ``seconds``; it asks nothing before ``work``. Raises
    UsageError for words that are too many, and where nothing answers."""

    def __init__(self, agent: Agent, text: str, questions: Sequence[str], seconds: float) -> None:
        words = read_words(text)
        known, live = load().agents[agent.name.lower()], Deployment.champion(agent)
        served = known.serving(live.pk if live else None)
        if served is None or served.upstream is None:
            raise UsageError(served.problem if served else f"nothing serves what is in use of {agent.name}")
        told_in = {name: served.manner._replace(instruction=words, instruction_place=name) for name in PLACES}
        manners = {WITHOUT: served.manner, **told_in}
        self._routes = {name: Route(known, replace(served, manner=manner)) for name, manner in manners.items()}
        self._questions, self._seconds = questions, seconds
        self.answers: list[dict[str, str]] = []
        """To each question, by place and WITHOUT."""

    async def work(self) -> bool:
        """Ends early, with what has come, when its time is over or the server refuses."""
        async with new_client() as client:
            forms, turns = Forms(client), Turns()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    for question in self._questions:
                        note_request()
                        asked = (_ask(forms, turns, route, question) for route in self._routes.values())
                        texts = await asyncio.gather(*asked)
                        if None in texts:
                            break
                        self.answers.append(dict(zip(self._routes, map(str, texts), strict=True)))
        return True

    @property
    def outcome(self) -> PlaceFound:
        return compare_places(self.answers)


async def _ask(forms: Forms, turns: Turns, route: Route, question: str) -> str | None:
    """None where the server refuses."""
    messages = [{"role": "user", "content": question}]
    length = min(TOKENS, route.agent.response_length)
    document: dict[str, Any] = {"messages": messages, "model": route.agent.name, "temperature": 0, "max_tokens": length}
    request = ChatRequest(document, route.agent.name, ({"role": "user", "content": question},), unit="", session_id="")
    exchange = Exchange(KnownKey(None, True, route.agent.id), request, route)
    try:
        async with turns.of(exchange):
            exchange.answer.take(await forms.complete(exchange))
    except Refusal as refusal:
        log.warning("%s gave no answer to a past question: %s", route.model, refusal)
        return None
    return str(columns_of(exchange.answer)["response"])


def compare_places(answers: Sequence[Mapping[str, str]]) -> PlaceFound:
    """``answers``: as a DryRun has them. The system prompt is taken only where it is surely heeded more often."""
    hits = {name: _told_apart([(row[name], row[WITHOUT]) for row in answers]) for name in PLACES}
    heeded = {name: sum(hits[name]) for name in PLACES}
    one_alone = [
        (question, system) for question, system in zip(hits[QUESTION], hits[SYSTEM], strict=True) if question != system
    ]
    better = sum(system for _, system in one_alone)
    is_system = bool(one_alone) and wilson(better, len(one_alone)).low > 0.5
    return PlaceFound(SYSTEM if is_system else QUESTION, heeded, len(answers))


def _told_apart(pairs: Sequence[tuple[str, str]]) -> list[bool]:
    """Whether the first answer of each pair is the one that the first answers of the other pairs are like."""
    marks = [(_marks_of(heeding), _marks_of(plain)) for heeding, plain in pairs]
    of_told = Counter(mark for heeding, _ in marks for mark in heeding)
    of_plain = Counter(mark for _, plain in marks for mark in plain)

    def score(kept: set[str], own: tuple[set[str], set[str]]) -> float:
        heeding, plain = own
        return math.fsum(
            math.log((of_told[mark] - (mark in heeding) + 0.5) / (of_plain[mark] - (mark in plain) + 0.5))
            for mark in kept
        )

    return [score(own[0], own) > score(own[1], own) for own in marks]


def _marks_of(text: str) -> set[str]:
    words = words_of(text)
    lengths = {f">={length}" for length in _LENGTHS if len(words) >= length}
    return {*words, *lengths, *(f"#{name}" for name, pattern in _FORM.items() if re.search(pattern, text))}


def past_questions(agent: Agent, live: ModelVersion | None, most: int) -> list[dict[str, Any]]:
    """The newest different ones that began a conversation, each as ``question`` with the newest answer of ``live`` as
    ``before``, None where it has none."""
    rows = agent.traces.annotate(turns=UserTurns("prompt")).filter(turns=1, tool_calls=[]).exclude(response="")
    sides: dict[str, dict[str, Any]] = {}
    rows = rows.only("prompt", "prompt_key", "response", "model_version").order_by("-created_at")
    for trace in rows[:LOOKED_THROUGH].iterator(chunk_size=50):
        if len(sides) == most and trace.prompt_key not in sides:
            continue
        entry = sides.setdefault(trace.prompt_key, {"question": trace.question, "before": None})
        if entry["before"] is None and trace.model_version_id == (live.pk if live else None):
            entry["before"] = trace.response
    return [*sides.values()]
