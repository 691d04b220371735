"""Methods that generate single answers while they train: which they are, what they start from, and who rewards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rl.base.errors import NotEnoughData, UsageError
from rl.base.leaves import import_name, leaf
from rl.base.names import require_known, unknown_name
from rl.base.records import AnswerScore, Scorer, TraceRecord
from rl.collect.traces.records import trace_record, with_feedback
from rl.config import TrainingConfig, find_method
from rl.data_formatter.fresh import fresh_trace
from rl.models import Agent
from rl.rewards.engine import RewardEngine
from rl.scoring.stored import engine_for
from rl.versions import versions

REWARD_MODEL = "rl.training.reward_scoring"
NO_GRADER: Mapping[str, Any] = {}
GRADERS: dict[str, str] = {}
"""Name of a form of graders to the dotted path of its scorer: a dataclass, made from the JSON that describes the grader."""
PROBED = 20
"""Stored answers that are looked at to see whether a reward applies."""


@dataclass(frozen=True)
class AgentScorer:
    """The agent's rewards; only what can judge fresh answers. Other processes make the same one from its fields. Raises
    UsageError, when it is called first, for a name that is not known, or whose reward cannot judge fresh answers or is
    switched off."""

    agent: str
    names: str = ""
    """Names of the rewards that count, with commas between; empty: all."""

    def __call__(self, trace: TraceRecord) -> AnswerScore:
        results = self._engine.compute_all(replace(trace, agent=self.agent))
        components = {result.name: result.value for result in results if result.value is not None}
        return AnswerScore(self._engine.combine(results), components)

    @cached_property
    def _engine(self) -> RewardEngine:
        return _engine(Agent.objects.get(name=self.agent), self.names)


def check_rollouts(
    agent: Agent,
    method: str,
    config: TrainingConfig,
    rewards: str,
    reward_model: str,
    grader: Mapping[str, Any] = NO_GRADER,
) -> None:
    """Raises UsageError for rewards and generators that cannot be used, before there is a run."""
    record = find_method(method)
    if record.rows.of_tasks and not getattr(config, "environment", None):
        raise UsageError("agents with tools learn from tasks in an environment: use train_agent --config FILE")
    if (getattr(config, "vllm", False) or getattr(config, "vllm_server", "")) and not find_spec("vllm"):
        raise UsageError("the package vllm is not installed here: install it, or leave out --vllm and --vllm-server")
    if not record.generates_with(config):
        if rewards or reward_model or grader:
            what = "--rewards" if rewards else "--reward-model" if reward_model else "a grader"
            raise UsageError(f"{what} is for answers that are generated while training, and none are here")
        return
    if config.sft_epochs:
        raise UsageError(
            f"--sft-first imitates stored answers, and {method} makes its own: leave it out"
            + (", or use --rollouts offline" if record.generates == "online" else "")
        )
    if rewards and reward_model:
        raise UsageError("--rewards and --reward-model are two ways to reward an answer: choose one")
    if grader and (rewards or reward_model):
        raise UsageError("a grader rewards answers by itself: leave out --rewards and --reward-model")
    if grader:
        scorer_of_grader(grader)
    if rewards:
        _engine(agent, rewards)
    if reward_model:
        versions.find(agent, reward_model)


def scorer_of_run(agent: Agent, options: Mapping[str, Any]) -> Scorer:
    """The scorer that rewarded the answers that the run learned from; ``options``: those of the run."""
    if options.get("reward_model"):
        load: Callable[[Path], Scorer] = leaf(REWARD_MODEL).load
        return load(versions.find(agent, options["reward_model"]))
    if options.get("grader"):
        return scorer_of_grader(options["grader"])
    return AgentScorer(agent.name, options.get("rewards", ""))


def scorer_of_grader(grader: Mapping[str, Any]) -> Scorer:
    """``grader``: one name of GRADERS to the JSON of a grader. Raises UsageError."""
    ((form, description),) = grader.items()
    require_known("form of graders", form, GRADERS)
    make: Callable[[Mapping[str, Any]], Scorer] = import_name(GRADERS[form])
    return make(description)


def require_rewards(agent: Agent, names: str = "", grader: Mapping[str, Any] = NO_GRADER) -> None:
    """Raises NotEnoughData where no fresh answer would get a reward, UsageError as ``AgentScorer`` and the grader's
    scorer."""
    if grader:
        scorer_of_grader(grader)
        return
    engine = _engine(agent, names)
    evidence = [name for name, weight in engine.weights.items() if weight and not engine.rewards[name].supporting]
    if not evidence:
        raise NotEnoughData(
            f"no reward of {agent.name} that is switched on can judge an answer that was just generated: give one of these "
            f"a weight, {', '.join(_of_fresh_answers(engine))}, or score by --reward-model"
        )
    # what only supports decides nothing, and learned_reward would load the base model
    engine.weights = {name: weight if name in evidence else 0.0 for name, weight in engine.weights.items()}
    reasons = ""
    newest = list(with_feedback(agent.traces.order_by("-created_at", "id"))[:PROBED])
    for trace in newest:
        record = trace_record(trace)
        row = {"prompt": record.prompt, "prompt_key": record.prompt_key, "details": record.details}
        results = engine.compute_all(replace(fresh_trace(row, record.response), agent=record.agent))
        if engine.combine(results) is not None:
            return
        reasons = reasons or "; ".join(f"{result.name}: {result.reason}" for result in results if result.value is None)
    if newest:
        raise NotEnoughData(
            f"no reward applies to any of the {len(newest)} newest answers of {agent.name}, so none would to fresh ones "
            f"({reasons}): set the agent's answer format, give tests with the prompts, add a reward of your own, "
            "or score by --reward-model"
        )


def _engine(agent: Agent, names: str) -> RewardEngine:
    """The agent's rewards, with weight 0 for what is not named and for what cannot judge fresh answers."""
    engine = engine_for(agent)
    fresh = _of_fresh_answers(engine)
    wanted_names = [name.strip() for name in names.split(",") if name.strip()]
    if unknown := [name for name in wanted_names if name not in engine.rewards]:
        raise UsageError(unknown_name("reward", unknown[0], engine.rewards))
    if stored := [name for name in wanted_names if name not in fresh]:
        raise UsageError(f"the reward {stored[0]} needs a stored answer; fresh ones can have: {', '.join(fresh)}")
    if off := [name for name in wanted_names if not engine.weights[name]]:
        raise UsageError(f"the reward {off[0]} is switched off: its weight for {agent.name} is 0")
    used_names = wanted_names or fresh
    engine.weights = {name: weight if name in used_names else 0.0 for name, weight in engine.weights.items()}
    return engine


def _of_fresh_answers(engine: RewardEngine) -> list[str]:
    return [name for name, reward in engine.rewards.items() if reward.fresh]
