"""The agent's base model, as the judge reads answers with it. Only what labels and what trains loads one, never the site."""

from __future__ import annotations

from typing import Any

from rl.base.leaves import leaf
from rl.base.records import Report
from rl.lm import base_models
from rl.models import Agent

FEATURES, HEAD, RATERS = "rl.judge.features", "rl.judge.head", "rl.judge.raters"
MOST_TOKENS = 1024
"""That are read of a prompt and its answer together."""


def load_reader(agent: Agent, report: Report) -> Any:
    """A ``rl.judge.features.Reader``. Raises what that raises, and UsageError where torch is not installed."""
    folder = base_models.resolve(agent.base_model, report)
    return leaf(FEATURES).Reader(folder, max_length=min(agent.context_length, MOST_TOKENS), report=report)
