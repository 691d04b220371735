"""Which version answers a request: the running experiment decides, else the champion does.

Everything here looks at one snapshot of the database (``rl/serving/gateway/table.py``), so that no request waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from rl.base.errors import UsageError
from rl.base.manner import ASKED_PLAINLY, Manner
from rl.base.names import unknown_name
from rl.collect.feedback.kept_answers import ClosedAnswers, StructuredAnswers
from rl.models import BASE, ApiKey, Deployment
from rl.serving.experiments.sample_ratio import pick, shares
from rl.serving.upstreams import Upstream


@dataclass(frozen=True, slots=True)
class Served:
    version_id: int | None
    """None: the base model of the agent."""
    version: str
    upstream: Upstream | None
    """None: nothing serves it, and ``problem`` says why."""
    problem: str = ""
    alias: str = ""
    knows_system_prompt: bool = False
    """Ollama has the agent's system prompt in the model."""
    best_of: int = 1
    """Answers of which the judge picks one."""
    manner: Manner = ASKED_PLAINLY
    """As the version was trained, or as the agent says of its base model."""
    learned_at: datetime | None = None
    """When the rows were chosen that its weights were trained on; None for those of the base model."""

    @property
    def reached(self) -> Upstream:
        assert self.upstream is not None  # noqa: S101  whoever has none is refused before
        return self.upstream

    @property
    def is_ours(self) -> bool:
        """A llama.cpp process of ours serves it."""
        return self.upstream is not None and self.upstream.server is not None


@dataclass(frozen=True, slots=True)
class Side:
    """An arm that still gets traffic."""

    arm_id: int
    version_id: int | None
    version: str
    weight: float
    is_control: bool
    best_of: int | None = None
    """None: as the deployment says."""


@dataclass(frozen=True, slots=True)
class TrafficSplit:
    experiment_id: int
    started_at: datetime
    ramp: list[dict[str, Any]]
    sides: tuple[Side, ...]

    def side_of(self, unit: str, now: datetime) -> Side | None:
        """None when no side has a weight."""
        by_arm = {side.arm_id: side for side in self.sides}
        control = next((side.arm_id for side in self.sides if side.is_control), None)
        hours = (now - self.started_at).total_seconds() / 3600
        now_shares = shares({arm: side.weight for arm, side in by_arm.items()}, control, self.ramp, hours)
        return by_arm[pick(self.experiment_id, unit, now_shares)] if now_shares else None


@dataclass(frozen=True, slots=True)
class KnownJudge:
    socket: Path
    head: str
    """The path of its weights."""
    label_model: int


@dataclass(frozen=True, slots=True)
class KnownAgent:
    id: int
    name: str
    created_at: datetime
    system_prompt: str
    response_length: int
    deployed: tuple[Served, ...] = ()
    """Newest first."""
    split: TrafficSplit | None = None
    judge: KnownJudge | None = None
    judge_problem: str = ""
    """Why there is none, where several answers are asked for."""
    closed: ClosedAnswers | None = None
    """The set that its answers are chosen from."""
    structure: StructuredAnswers | None = None
    """The schema that its answers keep to. Neither: it says what it likes."""
    larger: Served | None = None
    """What is asked where this one is unsure which answer of the set is right; its ``version`` is its agent's name."""
    unsure_below: float = 0.0
    """The share of the best answer, 0 to 1."""

    def serving(self, version_id: int | None) -> Served | None:
        """The deployment of a version that answers, else one that does not."""
        return _answering([served for served in self.deployed if served.version_id == version_id])

    def pins(self) -> list[str]:
        return list(dict.fromkeys(served.version for served in self.deployed if served.upstream))


@dataclass(frozen=True, slots=True)
class KnownKey:
    """Who asks: an application by its key, or a person of whom the site knows that he signed in."""

    id: int | None
    """None: a person, who has no key."""
    is_secret: bool
    agent_id: int | None
    """None: it is for every agent."""
    scopes: frozenset[str] = frozenset()
    expires_at: datetime | None = None
    user_id: int | None = None
    origins: frozenset[str] = frozenset()
    """Pages from which a publishable key works."""

    @classmethod
    def of_person(cls, user_id: int, agent_id: int) -> KnownKey:
        return cls(None, True, agent_id, frozenset({ApiKey.Scope.INGEST.value}), user_id=user_id)

    @property
    def caller(self) -> tuple[int | None, int | None]:
        return self.id, self.user_id

    def has_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= datetime.now(UTC)


CHECKPOINT: Final = ":ckpt-step-"
"""Between the name of a tuned model and the steps after which its training had a checkpoint."""


class TunedName(NamedTuple):
    """What a version is called by clients of OpenAI's fine-tuning API."""

    name: str
    """``ft:BASE:ORGANIZATION:SUFFIX:ID``, and of a checkpoint ``ft:…:ckpt-step-24``."""
    pin: str
    """``agent@version``."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    agents: Mapping[str, KnownAgent] = field(default_factory=dict)
    """The agents by name in lower case."""
    keys: Mapping[str, KnownKey] = field(default_factory=dict)
    """The keys by their digest."""
    tuned: Mapping[str, TunedName] = field(default_factory=dict)
    """The names of tuned models in lower case."""
    origins: frozenset[str] = frozenset()
    """Pages whose publishable keys may ask."""

    def pin_of(self, model: str) -> str:
        """What a tuned model, or a checkpoint of its training, is here; another name as it is."""
        tuned = self.tuned.get(model.lower()) if model.startswith("ft:") else None
        return tuned.pin if tuned else model

    def visible_to(self, key: KnownKey) -> Iterator[KnownAgent]:
        return (agent for agent in self.agents.values() if key.agent_id in (None, agent.id))


@dataclass(frozen=True, slots=True)
class Route:
    agent: KnownAgent
    served: Served
    experiment_id: int | None = None
    arm_id: int | None = None
    stands_in: bool = False
    """Neither the experiment, nor the request, nor the champion's alias names this version."""
    best_of: int = 1
    """Answers of which the judge picks one."""

    @property
    def upstream(self) -> Upstream:
        """For whoever asks it; a route without one is refused before."""
        return self.served.reached

    @property
    def model(self) -> str:
        """What the answer is said to come from; as the ``model`` of a request it asks for this version."""
        return f"{self.agent.name}@{self.served.version}"


def route(snapshot: Snapshot, key: KnownKey, model: str, unit: str, now: datetime) -> Route:
    """``model`` is ``agent``, ``agent@version``, ``agent@base`` or the name of a tuned model. The route may lead to what
    nothing serves. Raises UsageError for an agent that the key does not see, or a version that was never deployed."""
    name, pinned, version = snapshot.pin_of(model).partition("@")
    agent = snapshot.agents.get(name.lower())
    if agent is None or key.agent_id not in (None, agent.id):
        known = sorted(visible.name for visible in snapshot.visible_to(key))
        raise UsageError(unknown_name("agent", name, known[:20]))
    if pinned:
        served = _find_pinned(agent, version)
        return Route(agent, served, best_of=served.best_of)
    if agent.split and (side := agent.split.side_of(unit, now)):
        nowhere = Served(side.version_id, side.version, None, f"{side.version} of {agent.name} is not deployed")
        served = agent.serving(side.version_id) or nowhere
        count = side.best_of or served.best_of
        return Route(agent, served, agent.split.experiment_id, side.arm_id, best_of=count)
    return _in_use(agent)


def _find_pinned(agent: KnownAgent, version: str) -> Served:
    if pinned := _answering([served for served in agent.deployed if served.version.lower() == version.lower()]):
        return pinned
    known = ", ".join(agent.pins())
    raise UsageError(
        f"{agent.name} has no deployment of {version[:100]!r}; " + (f"served: {known}" if known else "none is served")
    )


def _answering(rows: Sequence[Served]) -> Served | None:
    """The first that answers, else the first."""
    return next((row for row in rows if row.upstream), rows[0] if rows else None)


def _in_use(agent: KnownAgent) -> Route:
    """The champion; without such a row the base model is in use. Where the champion is not served: the one before; where
    nothing was ever promoted: the newest. Never what a person went back from."""
    champion = next((served for served in agent.deployed if served.alias == Deployment.Alias.CHAMPION), None)
    first = agent.serving(champion.version_id if champion else None)
    if first and first.upstream:
        return Route(agent, first, best_of=first.best_of)
    others = [served for served in agent.deployed if served.upstream]
    if champion:
        others = [served for served in others if served.alias == Deployment.Alias.PREVIOUS]
    if others and (champion or not any(served.alias for served in agent.deployed)):
        return Route(agent, others[0], stands_in=True, best_of=others[0].best_of)
    name = champion.version if champion else "the base model"
    reason = first.problem if first else f"{name} of {agent.name} is in use, and nothing serves it"
    return Route(agent, Served(None, champion.version if champion else BASE, None, reason))
