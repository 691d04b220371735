"""What the newest model expects people to say. Only what labels and what trains loads a base model, never the site."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from rl.base.errors import UsageError
from rl.base.leaves import leaf
from rl.base.records import Report, TraceRecord, silent
from rl.lm import base_models
from rl.models import Agent, LabelModel

FEATURES, HEAD, RATERS = "rl.judge.features", "rl.judge.head", "rl.judge.raters"
MOST_TOKENS = 1024
"""That are read of a prompt and its answer together."""


def newest(agent: Agent, reads: LabelModel.Reads = LabelModel.Reads.ANSWER) -> LabelModel | None:
    models = agent.label_models.filter(reads=reads)[:10]
    return next((model for model in models if model.path.exists()), None)


def predictor(agent: Agent) -> Callable[[TraceRecord], float | None] | None:
    """A function that gives the probability of a good label: of a stored answer as it was proposed, None where it was not;
    of a fresh one as the newest model judges it, which loads the base model once. None without a model that is better than
    always saying the commoner label. Raises BadFile for damaged weights, and UsageError where torch is not installed or the
    agent's base model was changed since."""
    model = newest(agent)
    if model is None or not model.is_informative:
        return None
    head = leaf(HEAD).load(model.path)
    if head.base_model != agent.base_model:
        raise UsageError(
            f"what was learned from labels of {agent} reads answers with the base model {head.base_model or 'not known'}, "
            f"and the agent has {agent.base_model} now: run auto_label again"
        )
    return _Predictor(agent, head)


class _Predictor:
    def __init__(self, agent: Agent, head: Any) -> None:
        self._agent, self._head = agent, head

    def __call__(self, trace: TraceRecord) -> float | None:
        if not trace.id:
            features = self._reader.features([(trace.prompt, trace.response)], silent)
            return float(self._head.goodness(features)[0])
        if trace.proposed is None:
            return None
        good, confidence = trace.proposed
        return confidence if good else 1 - confidence

    @cached_property
    def _reader(self) -> Any:
        return load_reader(self._agent, silent)


def load_reader(agent: Agent, report: Report) -> Any:
    """The agent's base model, as the judge reads answers with it: a ``rl.judge.features.Reader``. Raises what that
    raises, and UsageError where torch is not installed."""
    folder = base_models.resolve(agent.base_model, report)
    return leaf(FEATURES).Reader(folder, max_length=min(agent.context_length, MOST_TOKENS), report=report)
