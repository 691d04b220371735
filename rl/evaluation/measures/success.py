"""How many held-out tasks a version solves, beside its base model and the version in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rl.base.leaves import leaf
from rl.base.records import Report
from rl.config import AgentConfig
from rl.data_formatter.pairing import stable_hash
from rl.environments.episode import Episode
from rl.evaluation import SCORERS
from rl.evaluation.contest import MODELS, Contest, of_each
from rl.evaluation.measures.reward import MOST_PROMPTS, Earned

Row = Mapping[str, Any]


def solved(contest: Contest, rows: Sequence[Row], config: AgentConfig, report: Report) -> Earned:
    """The reward is 1 for a task that is solved, else 0; the answers are what was said last. Tasks whose world broke under
    one of the models are not counted. Loads each base model once."""
    tried = sorted(rows, key=lambda row: stable_hash(row["prompt_key"]))[:MOST_PROMPTS]
    episodes = _episodes(contest, [row["task"] for row in tried], config, report) if tried else {}
    episodes.setdefault("current", episodes.get("base", []))
    whole = [place for place in range(len(tried)) if all(episodes[name][place].reward is not None for name in MODELS)]
    return Earned(
        rows=[tried[place] for place in whole],
        answers={name: [episodes[name][place].answer for place in whole] for name in MODELS},
        rewards={name: [float(episodes[name][place].success) for place in whole] for name in MODELS},
        unscored=len(tried) - len(whole),
    )


def _episodes(
    contest: Contest, tasks: Sequence[Mapping[str, Any]], config: AgentConfig, report: Report
) -> dict[str, list[Episode]]:
    solve = leaf(SCORERS["success"]).solve_versions
    return of_each(contest, lambda base, compared: solve(base, compared, tasks, config, report))
