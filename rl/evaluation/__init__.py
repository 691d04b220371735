"""How good a version is: scores of held-out pairs, statistics on them, and the gate that decides from both.

Imports: base, collect, config, data_formatter, dataset_builder, environments, export, judge, lm, models, operations,
    scoring, training, versions; Django.
"""

from __future__ import annotations

SCORERS: dict[str, str] = {
    "preference": "rl.evaluation.torch.scoring",
    "reward": "rl.evaluation.torch.answering",
    "success": "rl.evaluation.torch.solving",
    "reward_model": "rl.training.reward_scoring",
}
"""Measure to the module that runs the models, imported on first use because it brings torch along."""
DECIDING_FIELDS: dict[str, str] = {}
"""Type of agent, in capitals, to the field of an answer, a JSON object, that decides whether it is right; all of them decide
of other types. ``rl.from_systems`` adds its own when the app starts."""
