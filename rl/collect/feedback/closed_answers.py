"""The closed answers of an agent: which there are, and the corrected texts by which the next like text is answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rl.base.records import Message
from rl.collect.feedback.accepted import read_accepted
from rl.config.schemas import LONGEST_VALUE, MOST_VALUES
from rl.data_formatter.answer_kinds import find_kind, normalise
from rl.data_formatter.answer_schema import is_complete
from rl.data_formatter.listed_answers import listed_answers
from rl.data_formatter.remembered import MOST, Remembered
from rl.models import Agent, Trace

MOST_PROMPTS: Final = 32
"""The newest questions, whose mean tells how likely each answer is whatever is asked."""


@dataclass(frozen=True, slots=True)
class ClosedAnswers:
    values: tuple[str, ...]
    """As people spell them."""
    reason: str
    """Why these are all, for people."""
    answered: tuple[tuple[str, str], ...]
    """Questions with the answers of the set that people accepted, the newest first."""
    remembered: Remembered
    prompts: tuple[Sequence[Message], ...] = ()
    """At most MOST_PROMPTS, the newest first."""
    listed: tuple[str, ...] = ()
    """Those that prompts list, where that alone tells of the set: whoever asks without the list is not answered from it."""

    def answers(self, prompt: Sequence[Message], system_prompt: str) -> bool:
        """Whether a question is to be answered from the set."""
        return is_asked_for(self.listed, prompt, system_prompt)


class Accepted(NamedTuple):
    prompt: Sequence[Message]
    answer: str
    is_trusted: bool
    """Whoever said so may bring answers that nobody gave before."""


def read_closed_answers(agent: Agent) -> ClosedAnswers | None:
    """``agent``: with its settings of answers and its system prompt."""
    if _is_open(agent):
        return None
    accepted = list(newest_accepted(agent))
    values, listed, reason = _find_values(agent, accepted)
    if not values:
        return None
    spelled = {normalise(value): value for value in values}
    known = tuple(
        (question(row.prompt), spelled[name]) for row in accepted if (name := normalise(row.answer)) in spelled
    )
    prompts = _newest_prompts(agent)
    return ClosedAnswers(values, reason, known, Remembered(known, map(question, prompts)), prompts, listed)


def read_values(agent: Agent) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """``values`` and ``listed`` of ClosedAnswers, without what was corrected; empty where no set is known."""
    return ((), ()) if _is_open(agent) else _find_values(agent, list(newest_accepted(agent)))[:2]


def is_asked_for(listed: tuple[str, ...], prompt: Sequence[Message], system_prompt: str) -> bool:
    """Whether a question lists them; every question where something else tells of the set, and ``listed`` is empty."""
    return not listed or listed_answers(_whole(prompt, system_prompt), listed[0]) == listed


def question(prompt: Sequence[Message]) -> str:
    """What the user said last."""
    return next((message["content"] for message in reversed(prompt) if message["role"] == "user"), "")


def _is_open(agent: Agent) -> bool:
    """Its settings say that there is no set."""
    return agent.answer_kind in (Agent.AnswerKind.FREE, Agent.AnswerKind.STRUCTURED)


def _find_values(agent: Agent, accepted: Iterable[Accepted]) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """All values, those that the prompts list where nothing else tells of the set, and the reason; empty where there are too
    few or too many to choose among."""
    every = _find_any(agent, [answer for answer in accepted if answer.is_trusted])
    return every if 2 <= len(every[0]) <= MOST_VALUES else ((), (), "")


def _find_any(agent: Agent, accepted: Sequence[Accepted]) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    if agent.answer_values:
        return tuple(agent.answer_values), (), "as the agent's settings say"
    if not accepted:
        return (), (), ""
    texts = [row.answer for row in accepted]
    spellings = _spellings(texts)
    listed = listed_answers(_whole(accepted[0].prompt, agent.system_prompt), texts[0])
    if set(spellings) <= set(map(normalise, listed)):
        return listed, listed, f"the prompt lists {len(listed)} answers"
    kind = find_kind(texts, agent.answer_kind)
    is_sure = bool(agent.answer_kind) or is_complete(Counter(map(normalise, texts)), len(texts))
    return (tuple(spellings.values()) if kind.kind == "closed" and is_sure else ()), (), kind.reason


def _whole(prompt: Sequence[Message], system_prompt: str) -> str:
    return "\n".join([system_prompt, *(message["content"] for message in prompt)])


def _spellings(texts: Iterable[str]) -> dict[str, str]:
    """By normalised answer the most frequent way to write it, the most frequent answers first."""
    by_name: dict[str, Counter[str]] = {}
    for text in texts:
        if len(text) <= LONGEST_VALUE:
            by_name.setdefault(normalise(text), Counter())[text] += 1
    ordered = sorted(by_name.items(), key=lambda item: -item[1].total())
    return {name: counter.most_common(1)[0][0] for name, counter in ordered[:MOST_VALUES] if name}


def newest_accepted(agent: Agent) -> Iterator[Accepted]:
    """The newest first, and of each question only the newest."""
    accepted = list(read_accepted(agent, MOST))
    prompts = dict(Trace.objects.filter(pk__in=[row.trace_id for row in accepted]).values_list("pk", "prompt"))
    seen: set[str] = set()
    for row in accepted:
        asked = question(prompts.get(row.trace_id, ()))
        if asked and asked not in seen:
            seen.add(asked)
            yield Accepted(prompts[row.trace_id], row.answer, row.is_trusted)


def _newest_prompts(agent: Agent) -> tuple[Sequence[Message], ...]:
    prompts = Trace.objects.filter(agent=agent).order_by("-created_at", "id").values_list("prompt", flat=True)
    return tuple({question(prompt): prompt for prompt in prompts[: 2 * MOST_PROMPTS]}.values())[:MOST_PROMPTS]
