"""Computes the rewards of stored traces and writes every component.

A trace waits (``reward_pending``) from its arrival, and again after everything that is said about it. Rewards are computed
outside of any transaction and written in short ones, only onto traces that still are what the rewards saw: what is said
meanwhile is never lost, its trace goes on waiting. A trace whose reward breaks is reported and does not wait any more."""

import json
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from rl import auto_labels
from rl.base.errors import BadFile, RewardFailed, RunConflict, UsageError
from rl.base.locks import device_lock
from rl.base.records import Report, TraceRecord, silent
from rl.collect.storable import unstorable
from rl.collect.traces.records import trace_record, with_feedback
from rl.config.reward_weights import check_decision_weights
from rl.models import Agent, Trace
from rl.rewards.base import RewardResult
from rl.rewards.decision import DecisionReward
from rl.rewards.engine import RewardEngine, load_rewards
from rl.rewards.format_compliance import FormatComplianceReward
from rl.rewards.recorded import LearnedReward
from rl.rewards.summary import Failures, RewardReport

CHUNK = 100
"""Traces in memory, and in one transaction."""
FLUSH_SECONDS = 2.0
"""Work that an interruption may lose: rewards that run code take seconds each."""
DELIVERY_SECONDS = 30.0
"""What the queue computes in one go; longer, and supervising runs would have to wait."""


def engine_for(agent: Agent) -> RewardEngine:
    """The agent's weighted rewards and threshold. Raises BadFile; UsageError if these or CUSTOM_REWARDS are wrong."""
    check_decision_weights(agent.decision_weights)
    rewards = [
        DecisionReward(agent.decision_weights),
        FormatComplianceReward(agent.answer_format),
        _learned_reward(agent),
        *load_rewards(settings.CUSTOM_REWARDS),
    ]
    return RewardEngine(agent.reward_weights, rewards=rewards, label_threshold=agent.label_threshold)


def _learned_reward(agent: Agent) -> LearnedReward:
    """Abstains where torch is missing, or the base model is another one by now; raises BadFile for damaged weights."""
    try:
        return LearnedReward(auto_labels.predictor(agent))
    except UsageError as error:
        return LearnedReward(None, str(error))


def calculate(
    agent: Agent | None = None,
    *,
    only: Collection[UUID] | None = None,
    pending: bool = True,
    limit: int | None = None,
    dry_run: bool = False,
    seconds: float | None = None,
    report: Report = silent,
) -> RewardReport:
    """The oldest first. ``only``: these traces; ``pending``: only traces that wait; ``limit``: so many at most;
    ``seconds``: stop after these. Raises UsageError where CUSTOM_REWARDS, or the settings of the one agent that was asked
    for, are wrong. Safe to interrupt and to run beside itself."""
    load_rewards(settings.CUSTOM_REWARDS)  # else every agent would be reported
    report("stage", {"name": "rewards"})
    traces = _traces(pending) if only is None else _traces(pending).filter(pk__in=only)
    agents = [agent] if agent else list(Agent.objects.filter(Exists(traces.filter(agent=OuterRef("pk")))))
    total = sum(traces.filter(agent=owner).count() for owner in agents)  # the index needs the agent
    ends = None if seconds is None else time.monotonic() + seconds
    work = _Work(dry_run, ends, report, total if limit is None else min(limit, total))
    for owner in agents:
        try:
            engine = engine_for(owner)
        except (BadFile, UsageError) as error:
            if agent:
                raise
            work.outcome.unusable[owner.name] = str(error)
            continue
        remaining = None if limit is None else limit - work.outcome.read
        work.do(engine, islice(_walk(traces.filter(agent=owner)), remaining))
        if not work.outcome.finished:
            break
    return work.outcome


def waiting(agent_id: int | None = None) -> int:
    """Traces that wait for their reward, of all agents or of one."""
    traces = Trace.objects.filter(reward_pending=True)
    return (traces if agent_id is None else traces.filter(agent=agent_id)).count()


# --- the queue --------------------------------------------------------------------------------------------------------


def enqueue() -> None:
    """Has the queue compute the rewards of all traces that wait, once this transaction is committed."""
    from django_q.tasks import async_task  # reads the queue's settings when imported

    transaction.on_commit(lambda: async_task("rl.tasks.calculate_rewards"))


def deliver() -> RewardReport | None:
    """Some seconds of work; the rest goes to the end of the queue. None: another worker is at it already. A delivery that
    wrote something is always followed by one more: it finds what came in meanwhile."""
    try:
        with device_lock(settings.DATA_DIR / "locks", "rewards", _refuse_to_wait):
            outcome = calculate(seconds=DELIVERY_SECONDS)
    except RunConflict:
        return None
    if outcome.written:
        enqueue()
    return outcome


def _refuse_to_wait() -> None:
    raise RunConflict("rewards are being calculated already")


# --- one calculation --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ScoredTrace:
    record: TraceRecord
    results: list[RewardResult | RewardFailed]
    combined: float | None
    label: bool | None

    @property
    def failures(self) -> list[RewardFailed]:
        return [result for result in self.results if isinstance(result, RewardFailed)]


@dataclass(slots=True)
class _Work:
    dry_run: bool
    ends: float | None
    """When to stop, by ``time.monotonic``."""
    report: Report
    total: int
    outcome: RewardReport = field(default_factory=RewardReport)

    def do(self, engine: RewardEngine, traces: Iterable[Trace]) -> None:
        scored_traces: list[_ScoredTrace] = []
        last_flush = time.monotonic()
        for trace in traces:
            try:
                record = trace_record(trace)
            except Exception as error:  # noqa: BLE001  what is stored wrongly must not keep the others waiting
                self._set_aside(trace, f"cannot be read: {type(error).__name__}: {error}"[:500])
                continue
            scored_traces.append(_score(engine, record))
            now = time.monotonic()
            if len(scored_traces) == CHUNK or now - last_flush > FLUSH_SECONDS:
                self._flush(engine, scored_traces)
                scored_traces, last_flush = [], time.monotonic()
                if self.ends is not None and now > self.ends:
                    self.outcome.finished = False
                    return
        self._flush(engine, scored_traces)

    def _flush(self, engine: RewardEngine, scored_traces: Sequence[_ScoredTrace]) -> None:
        written_traces = scored_traces if self.dry_run else _store(engine, scored_traces)
        self.outcome.read += len(scored_traces)
        self.outcome.changed += len(scored_traces) - len(written_traces)
        for scored_trace in written_traces:
            self._count(scored_trace)
        if scored_traces:
            self.report("step", {"step": self.outcome.read, "total_steps": max(self.total, self.outcome.read)})

    def _set_aside(self, trace: Trace, reason: str) -> None:
        """It has no reward, and does not wait any more."""
        self.outcome.read += 1
        self.outcome.broken += 1
        self.outcome.failures.setdefault("(stored trace)", Failures()).add(str(trace.pk), reason)
        if not self.dry_run:
            Trace.objects.filter(pk=trace.pk).update(
                reward=None, rewards={}, rewarded_at=timezone.now(), reward_pending=False
            )

    def _count(self, scored_trace: _ScoredTrace) -> None:
        self.outcome.summary.add(scored_trace.results, scored_trace.combined, scored_trace.label)
        for failure in scored_trace.failures:
            self.outcome.failures.setdefault(failure.reward, Failures()).add(scored_trace.record.id, str(failure))
        if scored_trace.failures:
            self.outcome.broken += 1
        elif scored_trace.combined is None:
            self.outcome.nothing_applies += 1
        else:
            self.outcome.rewarded += 1


def _traces(pending: bool) -> QuerySet[Trace]:
    """Those that arrive later are for the next time: else a busy site would never be done."""
    traces = Trace.objects.filter(created_at__lte=timezone.now()).order_by()
    return traces.filter(reward_pending=True) if pending else traces


def _walk(traces: QuerySet[Trace]) -> Iterator[Trace]:
    """The oldest first, some at a time, along the index on agent and creation."""
    ordered = with_feedback(traces).order_by("created_at", "id")
    after = Q()
    while chunk := list(ordered.filter(after)[:CHUNK]):
        yield from chunk
        last = chunk[-1]
        after = Q(created_at__gte=last.created_at) & ~Q(created_at=last.created_at, id__lte=last.pk)


def _score(engine: RewardEngine, record: TraceRecord) -> _ScoredTrace:
    results = [_storable(result) for result in engine.attempt_all(record)]
    return _ScoredTrace(record, results, *engine.verdict(record, results))


def _storable(result: RewardResult | RewardFailed) -> RewardResult | RewardFailed:
    if isinstance(result, RewardFailed):
        return result
    try:
        problem = unstorable(json.loads(json.dumps(result.as_dict(), allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"is not JSON: {error}"
    return RewardFailed(result.name, f"what it tells cannot be stored, it {problem}") if problem else result


def _store(engine: RewardEngine, scored_traces: Sequence[_ScoredTrace]) -> list[_ScoredTrace]:
    """Writes the rewards of the traces that nobody changed meanwhile, and returns these."""
    if not scored_traces:
        return []
    with transaction.atomic():
        # Whoever writes feedback locks the trace too: either it is seen here, or its writer waits and sets the flag again.
        rows = Trace.objects.filter(pk__in=[scored_trace.record.id for scored_trace in scored_traces]).order_by("pk")
        locked = with_feedback(rows).select_for_update(of=("self",), no_key=True)
        now = {str(stored.pk): trace_record(stored) for stored in locked}
        unchanged = [trace for trace in scored_traces if now.get(trace.record.id) == trace.record]
        for scored_trace in unchanged:
            Trace.objects.filter(pk=scored_trace.record.id).update(
                reward=scored_trace.combined,
                rewards={
                    result.name: result.as_dict()
                    for result in (_as_result(engine, result) for result in scored_trace.results)
                },
                rewarded_at=timezone.now(),
                reward_pending=False,
            )
    return unchanged


def _as_result(engine: RewardEngine, result: RewardResult | RewardFailed) -> RewardResult:
    if isinstance(result, RewardResult):
        return result
    reason = f"broke: {result}".replace("\x00", "").encode("utf-8", "replace").decode()
    return RewardResult(result.reward, None, engine.weights[result.reward], reason, {"broken": True})
