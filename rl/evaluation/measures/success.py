"""How many held-out tasks a version solves, beside its base model and the version in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rl.base.leaves import leaf
from rl.base.records import Report
from rl.config import AgentConfig
from rl.data_formatter.opinions import stable_hash
from rl.environments.episode import Episode
from rl.evaluation import SCORERS
from rl.evaluation.contest import MODELS, Contest, of_each
from rl.evaluation.measures.reward import MOST_PROMPTS, Earnings

Row = Mapping[str, Any]


def compare(contest: Contest, rows: Sequence[Row], config: AgentConfig, report: Report) -> Earnings:
    """The reward is 1 for a task that is solved, else 0; the answers are what was said last. Tasks whose world broke under
    one of the models are not counted. Loads each base model once."""
    candidates = sorted(rows, key=lambda row: stable_hash(row["prompt_key"]))[:MOST_PROMPTS]
    episodes = _episodes(contest, [row["task"] for row in candidates], config, report) if candidates else {}
    episodes.setdefault("current", episodes.get("base", []))
    unbroken = [
        position
        for position in range(len(candidates))
        if all(episodes[name][position].reward is not None for name in MODELS)
    ]
    return Earnings(
        rows=[candidates[position] for position in unbroken],
        answers={name: [episodes[name][position].answer for position in unbroken] for name in MODELS},
        rewards={name: [float(episodes[name][position].success) for position in unbroken] for name in MODELS},
        unscored=len(candidates) - len(unbroken),
    )


def _episodes(
    contest: Contest, tasks: Sequence[Mapping[str, Any]], config: AgentConfig, report: Report
) -> dict[str, list[Episode]]:
    solve = leaf(SCORERS["success"]).solve_versions
    return of_each(contest, lambda base, compared: solve(base, compared, tasks, config, report))
