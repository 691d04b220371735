"""The guard rails of one evaluation: which prompts are asked, who answers them, and what the report says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from typing import Any

from rl.base.errors import BadFile, RewardFailed, UsageError
from rl.base.leaves import leaf
from rl.base.measurements import Interval
from rl.base.records import Choosing, GeneratedAnswer, Report, Scorer
from rl.config.guard_limits import guard_limits
from rl.data_formatter.answer_kinds import FREE, AnswerKind
from rl.data_formatter.fresh import fresh_trace
from rl.data_formatter.opinions import stable_hash
from rl.evaluation import MODELS
from rl.evaluation.gate import Verdict
from rl.evaluation.guards.answer_errors import KINDS, asks_for_format, kinds_of
from rl.evaluation.guards.findings import FEWEST_PROMPTS, Findings, ModelAnswers
from rl.evaluation.guards.rails import broken_reason, hold, hold_to_task, say_little
from rl.evaluation.lm_eval import TaskScores
from rl.models import Agent

PROMPTS = 16
"""Asked of each model: every training pays for them."""
SAYS_LITTLE = "says_little"
SPEAKING = "rl.evaluation.torch.answering"
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Guards:
    """What is told in the report, and why the version may not be used; the reason is empty when all is well."""

    report: dict[str, Any]
    reason: str = ""

    def over(self, verdict: Verdict) -> Verdict:
        """A broken guard rail rejects, whatever the pairs say."""
        if not self.reason:
            return verdict
        reason = f"{self.reason} Without it: {verdict.reason}"
        return replace(verdict, decision="reject", reason=reason)


def skip(reason: str, agent: Agent, task: TaskScores | None) -> Guards:
    """Where no answers are looked at: the guard rail of the task stands alone."""
    limit = guard_limits(agent.guard_limits).get("task_loss")
    return Guards({"skipped": reason}, broken_reason([hold_to_task(task, limit)]) if limit else "")


@dataclass(slots=True)
class GuardWatch:
    """Waits for the models to be loaded for their scores: ``speaker`` is handed to whoever loads them."""

    agent: Agent
    rows: list[Row]
    """The first of those that are asked."""
    asked: list[Row]
    speaker: Any
    """None where there is no prompt to ask."""
    report: Report
    scorer: Callable[[], Scorer]
    """Gives the agent's rewards."""
    task: TaskScores | None
    kind: AnswerKind = FREE
    """What the agent's answers are."""
    chosen: Interval | None = None
    """How much likelier, in nats a token, the new version finds held-out preferred answers than the base model."""
    _score: Scorer | None = field(default=None, init=False)
    _rewards_broke: str = field(default="", init=False)

    @property
    def answers(self) -> dict[str, list[GeneratedAnswer | None]]:
        """What each model said to all that is asked, once they have answered."""
        answers: dict[str, list[GeneratedAnswer | None]] = self.speaker.answers if self.speaker else {}
        return answers

    def guards(self) -> Guards:
        """Once all models have answered. Where no version is in use, the base model stands for it."""
        if self.speaker is None:
            return skip("no prompts are held out", self.agent, self.task)
        kept = [
            at for at in range(len(self.rows)) if all(of_model[at] is not None for of_model in self.answers.values())
        ]
        if not kept:
            return skip("the held-out prompts leave no room for an answer", self.agent, self.task)
        rows = [self.rows[at] for at in kept]
        given = {name: [answer for at in kept if (answer := of[at])] for name, of in self.answers.items()}
        examined = {name: self._examine(name, given, rows) for name in given}
        all_models = {"current": examined["base"], **examined}
        findings = Findings(
            new=examined["new"],
            current=all_models["current"],
            preferred=[str(row["chosen"][-1].get("content") or "") for row in rows if row.get("chosen")],
            questions=[str(row["prompt"][-1].get("content") or "") for row in rows],
            distance=self.speaker.meter.distance,
            has_format=any(asks_for_format(row, self.agent.answer_format) for row in rows),
            task=self.task,
            chosen=self.chosen,
            kind=self.kind,
        )
        all_rails = hold(findings, guard_limits(self.agent.guard_limits))
        report = {
            "prompts": len(rows),
            "rails": [asdict(rail) for rail in all_rails],
            "models": {name: _figures(all_models[name]) for name in MODELS},
            "samples": _samples(rows, examined, findings),
            **({"rewards_broke": self._rewards_broke} if self._rewards_broke else {}),
        }
        return Guards(report, broken_reason(all_rails))

    def _examine(self, name: str, given: Mapping[str, Sequence[GeneratedAnswer]], rows: Sequence[Row]) -> ModelAnswers:
        """``given``: the answers of all models."""
        agent_format, most = self.agent.answer_format, self.speaker.most[name]
        texts_of_base = [[] if name == "base" else [answer.text] for answer in given["base"]]
        return ModelAnswers(
            texts=[answer.text for answer in given[name]],
            errors=[
                kinds_of(answer, most, row, agent_format, others)
                for answer, row, others in zip(given[name], rows, texts_of_base, strict=True)
            ],
            rewards=list(map(self._reward, given[name], rows)),
        )

    def _reward(self, answer: GeneratedAnswer, row: Row) -> float | None:
        """A reward that breaks says nothing about the version: the report tells of it, and the rewards are left out."""
        if self._rewards_broke:
            return None
        try:
            self._score = self._score or self.scorer()
            return self._score(fresh_trace(row, answer.text, answer.tokens_in, answer.tokens_out)).value
        except (RewardFailed, BadFile, UsageError) as error:
            self._rewards_broke = str(error)
            self.report("log", {"text": f"guard rails: left out the rewards: {error}"})
            return None


def watch(
    agent: Agent,
    rows: Sequence[Row],
    scorer: Callable[[], Scorer],
    *,
    max_length: int,
    most_tokens: int,
    report: Report,
    task: TaskScores | None = None,
    kind: AnswerKind = FREE,
    choosing: Choosing | None = None,
    schema: Mapping[str, Any] | None = None,
) -> GuardWatch:
    """Asks all ``rows``, and guards the first PROMPTS of them; ``most_tokens``: longest answer. Loads torch if there are
    any."""
    # for rewards and formats to read: of pairs, what was stored with the newest answer to their prompt
    first = rows[:PROMPTS]
    stored = agent.traces.filter(prompt_key__in=[row["prompt_key"] for row in first]).order_by("created_at", "id")
    details = {
        key: of_answer for key, of_answer in stored.values_list("prompt_key", "details") if isinstance(of_answer, dict)
    }
    guarded = [row if "details" in row else {**row, "details": details.get(row["prompt_key"], {})} for row in first]
    asked = [*guarded, *rows[PROMPTS:]]
    how = {"measured": PROMPTS, "choosing": choosing, "schema": schema}
    # the base model reads each answer twice more for it: only where a rail will ask
    tells = not kind.has_right_answers and sum(bool(row.get("chosen")) for row in guarded) >= FEWEST_PROMPTS
    how["measures_fit"] = tells and "relevance" in guard_limits(agent.guard_limits)
    speaker = leaf(SPEAKING).Speaker(asked, max_length, most_tokens, report, **how) if asked else None
    return GuardWatch(agent, guarded, asked, speaker, report, scorer, task, kind)


def one_of_each_prompt(rows: Sequence[Row]) -> list[Row]:
    """Ordered by a hash, so that what is asked has nothing to do with the order of arrival."""
    by_prompt = {row["prompt_key"]: row for row in reversed(rows)}
    return [by_prompt[key] for key in sorted(by_prompt, key=stable_hash)]


def _figures(answers: ModelAnswers) -> dict[str, Any]:
    rewards = [reward for reward in answers.rewards if reward is not None]
    return {
        "characters": answers.length,
        "reward": fmean(rewards) if rewards else None,
        "rewarded": len(rewards),
        "errors": {kind: answers.rate((kind,)) for kind in KINDS},
    }


def _samples(rows: Sequence[Row], examined: Mapping[str, ModelAnswers], findings: Findings) -> list[dict[str, Any]]:
    """Lists what each model answered to every prompt; those with an error of the new version come first. One that says
    little has that among its errors, where it can be told."""
    models = [name for name in MODELS if name in examined]
    little = dict(zip(("new", models[-1]), say_little(findings), strict=False)) if findings.tells_of_people else {}
    return [
        {
            "prompt": rows[at]["prompt"][-1]["content"],
            "prompt_key": rows[at]["prompt_key"],
            **{
                name: {
                    "answer": examined[name].texts[at],
                    "errors": [
                        *examined[name].errors[at],
                        *([SAYS_LITTLE] if name in little and little[name][at] else []),
                    ],
                }
                for name in models
            },
        }
        for at in sorted(range(len(rows)), key=lambda at: not examined["new"].errors[at])
    ]
