"""What the answers of an agent are kept to where they are served: one of a closed set, or a JSON schema."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic, NamedTuple, TypeVar

from django.db.models import Q

from rl.base.messages import last_question
from rl.base.records import Choosing, Message
from rl.collect.feedback.judged_answers import read_accepted
from rl.config.schemas import LONGEST_VALUE, MOST_VALUES, BadSchema, Schemas
from rl.data_formatter.answer_kinds import find_kind, listed_answers, normalise, whole_object
from rl.data_formatter.answer_schema import FEWEST, MOST_NEW, comes_to_an_end, in_order, is_complete, learn_schema
from rl.data_formatter.answer_tree import MOST, Remembered
from rl.models import Agent, Deployment, Feedback, Trace

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
    said_at: tuple[datetime, ...] = ()
    """When each of ``answered`` was accepted."""

    def support(self, prompt: Sequence[Message], learned_at: datetime | None) -> dict[str, float]:
        """Tells what was corrected of like questions. ``learned_at``: when the answering version's rows were chosen."""
        unlearned = sum(moment > learned_at for moment in self.said_at) if learned_at else 0
        return self.remembered.support(last_question(prompt), unlearned=unlearned)

    def answers(self, prompt: Sequence[Message], system_prompt: str) -> bool:
        return is_asked_for(self.listed, prompt, system_prompt)


class AnsweredPrompt(NamedTuple):
    prompt: Sequence[Message]
    answer: str
    is_trusted: bool
    """Whoever said so may bring answers that nobody gave before."""
    said_at: datetime


def read_closed_answers(agent: Agent) -> ClosedAnswers | None:
    """``agent``: with its settings of answers and its system prompt."""
    if _is_open(agent):
        return None
    accepted = list(newest_accepted(agent))
    values, listed, reason = _find_values(agent, accepted)
    if not values:
        return None
    spelled = {normalise(value): value for value in values}
    of_set = [row for row in accepted if normalise(row.answer) in spelled]
    known = tuple((last_question(row.prompt), spelled[normalise(row.answer)]) for row in of_set)
    newest = Trace.objects.filter(agent=agent).order_by("-created_at", "id").values_list("prompt", flat=True)
    prompts = tuple({last_question(prompt): prompt for prompt in newest[: 2 * MOST_PROMPTS]}.values())[:MOST_PROMPTS]
    remembered = Remembered(known, map(last_question, prompts))
    return ClosedAnswers(values, reason, known, remembered, prompts, listed, tuple(row.said_at for row in of_set))


def read_values(agent: Agent) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """``values`` and ``listed`` of ClosedAnswers, without what was corrected; empty where no set is known."""
    return ((), ()) if _is_open(agent) else _find_values(agent, list(newest_accepted(agent)))[:2]


def is_asked_for(listed: tuple[str, ...], prompt: Sequence[Message], system_prompt: str) -> bool:
    """Whether a question lists them; every question where something else tells of the set, and ``listed`` is empty."""
    return not listed or listed_answers(_whole(prompt, system_prompt), listed[0]) == listed


def _is_open(agent: Agent) -> bool:
    """Its settings say that there is no set."""
    return agent.answer_kind in (Agent.AnswerKind.FREE, Agent.AnswerKind.STRUCTURED)


def _find_values(agent: Agent, accepted: Iterable[AnsweredPrompt]) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """All values, those that the prompts list where nothing else tells of the set, and the reason; empty where there are too
    few or too many to choose among."""
    every = _find_any(agent, [answer for answer in accepted if answer.is_trusted])
    return every if 2 <= len(every[0]) <= MOST_VALUES else ((), (), "")


def _find_any(agent: Agent, accepted: Sequence[AnsweredPrompt]) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    if agent.answer_values:
        return tuple(agent.answer_values), (), "as the agent's settings say"
    if not accepted:
        return (), (), ""
    texts = [row.answer for row in accepted]
    by_name: dict[str, Counter[str]] = {}
    for text in texts:
        if len(text) <= LONGEST_VALUE:
            by_name.setdefault(normalise(text), Counter())[text] += 1
    ordered = sorted(by_name.items(), key=lambda item: -item[1].total())
    spellings = {name: counter.most_common(1)[0][0] for name, counter in ordered[:MOST_VALUES] if name}
    listed = listed_answers(_whole(accepted[0].prompt, agent.system_prompt), texts[0])
    if set(spellings) <= set(map(normalise, listed)):
        return listed, listed, f"the prompt lists {len(listed)} answers"
    kind = find_kind(texts, agent.answer_kind)
    is_sure = bool(agent.answer_kind) or is_complete(Counter(map(normalise, texts)), len(texts))
    return (tuple(spellings.values()) if kind.kind == "closed" and is_sure else ()), (), kind.reason


def _whole(prompt: Sequence[Message], system_prompt: str) -> str:
    return "\n".join([system_prompt, *(message["content"] for message in prompt)])


def newest_accepted(agent: Agent) -> Iterator[AnsweredPrompt]:
    """The newest first, and of each question only the newest."""
    accepted = list(read_accepted(agent, MOST))
    prompts = dict(Trace.objects.filter(pk__in=[row.trace_id for row in accepted]).values_list("pk", "prompt"))
    seen: set[str] = set()
    for row in accepted:
        asked = last_question(prompts.get(row.trace_id, ()))
        if asked and asked not in seen:
            seen.add(asked)
            yield AnsweredPrompt(prompts[row.trace_id], row.answer, row.is_trusted, row.said_at)


@dataclass(frozen=True, slots=True)
class StructuredAnswers:
    schema: Mapping[str, Any]
    reason: str
    """Why it is this one, for people."""

    @property
    def as_json(self) -> str:
        return json.dumps(self.schema, indent=2, ensure_ascii=False)

    @property
    def ends(self) -> bool:
        """Whether an answer that keeps to it comes to an end by itself."""
        return comes_to_an_end(self.schema)


def read_structured_answers(agent: Agent) -> StructuredAnswers | None:
    """``agent``: with its settings of answers. None where too few were accepted, one in twenty is something else, or they
    have no field in common: whoever keeps to a schema says nothing else any more, and ``{}`` would keep to that one. Two
    queries, none for a schema by hand."""
    if agent.answer_kind in (Agent.AnswerKind.FREE, Agent.AnswerKind.CLOSED):
        return None
    if agent.answer_schema:
        return StructuredAnswers(in_order(agent.answer_schema), "as the agent's settings say")
    answers = [row.answer for row in newest_accepted(agent) if row.is_trusted]
    objects = [value for answer in answers if (value := whole_object(answer))]
    if len(answers) < FEWEST or len(objects) < (1 - MOST_NEW) * len(answers):
        return None
    schema = learn_schema(objects)
    if "properties" not in schema or not find_kind(answers, "structured").fields:
        return None
    try:
        Schemas().check(schema, "learned")
    except BadSchema:
        return None
    return StructuredAnswers(schema, f"learned from {len(objects)} accepted answers")


ANYHOW_SECONDS: Final = 60.0
SETTINGS: Final = ("system_prompt", "answer_kind", "answer_values", "answer_schema", "keep_to_answers")
"""Fields of an agent that tell what its answers are kept to."""
_Target = Deployment.Target
_SERVED: Final = Q(target=_Target.LLAMA_CPP, pid__isnull=False) | Q(target__in=(_Target.OLLAMA, _Target.OPENAI))
KeptAnswers = ClosedAnswers | StructuredAnswers
Answers = TypeVar("Answers")


@dataclass(slots=True)
class AgentReader(Generic[Answers]):
    """What was read last, by agent; again only where its settings are others or something was said since, and once a minute
    anyhow: feedback is also held back, and forgotten."""

    read: Callable[[Agent], Answers]
    """It asks the database what people think of the agent's answers."""
    settings: tuple[str, ...] = SETTINGS
    """Fields of the agent that it depends on."""
    _known: dict[int, tuple[list[Any], Answers]] = field(default_factory=dict)
    _newest: int = -1
    _all_at: float = float("-inf")

    def look(self) -> None:
        """Forgets what has changed. Two queries."""
        newest = Feedback.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        if time.monotonic() - self._all_at > ANYHOW_SECONDS or newest < self._newest:
            self._known, self._all_at = {}, time.monotonic()
        elif newest > self._newest:
            new = Feedback.objects.filter(pk__gt=self._newest, pk__lte=newest).order_by()
            for agent_id in new.values_list("agent_id", flat=True).distinct():
                self._known.pop(agent_id, None)
        self._newest = newest

    def forget(self) -> None:
        self._known, self._newest, self._all_at = {}, -1, float("-inf")

    def now(self, agent: Agent) -> Answers:
        """Looks first whether something has changed, and gives what ``of`` does."""
        self.look()
        return self.of(agent)

    def of(self, agent: Agent) -> Answers:
        settings = [getattr(agent, name) for name in self.settings]
        if agent.pk not in self._known or self._known[agent.pk][0] != settings:
            self._known[agent.pk] = settings, self.read(agent)
        return self._known[agent.pk][1]


def read_kept_answers(agent: Agent) -> KeptAnswers | None:
    """``agent``: with its settings of answers and its system prompt. None: it says what it likes, also where it could be
    kept to something and its settings switch that off."""
    if not agent.keep_to_answers:
        return None
    return read_closed_answers(agent) or read_structured_answers(agent)


def choosing_for(agent: Agent, rows: Iterable[Mapping[str, Any]]) -> Choosing | None:
    """How the prompts of the rows would be answered if nobody had corrected them; None where answers are said freely."""
    targets = _targets(agent)
    closed = read_kept_answers(agent) if targets else None
    if not isinstance(closed, ClosedAnswers):
        return None
    stored = list(rows)
    if not all(closed.answers(row["prompt"], agent.system_prompt) for row in stored):
        return None
    if _Target.LLAMA_CPP not in targets:
        return Choosing(closed.values, {}, by_model_alone=True)
    asked = {row["prompt_key"]: last_question(row["prompt"]) for row in stored}
    supports = {key: closed.remembered.support(text, of_others=True) for key, text in asked.items()}
    answered = dict(reversed(closed.answered))
    accepted = {key: answered[text] for key, text in asked.items() if text in answered}
    return Choosing(closed.values, supports, accepted=accepted)


def schema_for(agent: Agent) -> Mapping[str, Any] | None:
    """The schema that answers keep to; None where they are said freely."""
    kept = read_kept_answers(agent) if _targets(agent) else None
    return kept.schema if isinstance(kept, StructuredAnswers) else None


def _targets(agent: Agent) -> set[str]:
    """What serves the agent, and llama.cpp where its versions are going to be served by it. Ollama is what every agent
    begins with, also one that nobody serves."""
    chosen = {_Target.LLAMA_CPP.value} if agent.deploy_target in (_Target.LLAMA_CPP, _Target.ADAPTER) else set()
    return chosen | set(Deployment.objects.filter(_SERVED, agent=agent).values_list("target", flat=True))
