"""What fresh answers of a version are worth by the agent's newest reward model: one figure for all methods, so that versions
which were trained in different ways can be compared.

It is taken of the answers that guard rails asked for, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import Final

from rl.base.errors import RatchetError
from rl.base.leaves import leaf
from rl.base.records import Message, Report
from rl.config.methods import scoring_methods
from rl.dataset_builder.wording import ask_agent
from rl.evaluation import SCORERS
from rl.models import Agent, Evaluation, ModelVersion
from rl.versions import versions

FIGURE: Final = "fresh_reward"
"""Where a report has ``reward_model`` (a name), ``mean`` and ``std`` (of the population, 0 to 1) and ``answers``."""
MOST_VERSIONS: Final = 20
"""The newest ones that a new reward model scores."""


def reward(evaluation: Evaluation, report: Report) -> None:
    """Adds the figure to the report that is stored, or where a reward model was evaluated, to those of the versions that are
    there. A reward model that is rejected or cannot be loaded scores nothing."""
    version = evaluation.version
    if version.is_reward_model:
        usable = evaluation.verdict != Evaluation.Verdict.REJECT
        judge, judged = (version if usable else None), _newest_evaluations(version.agent)
    else:
        trained = versions.list_trained(version.agent).exclude(stage=ModelVersion.Stage.REJECTED)
        judge, judged = trained.first(), [evaluation]
    answers = [(of_version, given) for of_version in judged if (given := _answers(of_version))]
    if judge is None or not answers:
        return
    report("stage", {"name": f"scoring fresh answers by {judge.name}"})
    try:
        scorer = leaf(SCORERS["reward_model"]).load(versions.weights_directory(judge))
        for of_version, given in answers:
            scores = [scorer.score(prompt, text) for prompt, text in given]
            if known := [score for score in scores if score is not None]:
                figures = {"mean": fmean(known), "std": pstdev(known), "answers": len(known)}
                of_version.report[FIGURE] = {"reward_model": judge.name, **figures}
                of_version.save(update_fields=["report"])
    except RatchetError as error:
        report("log", {"text": f"fresh answers are not scored by {judge.name}: {error}"})


def _newest_evaluations(agent: Agent) -> list[Evaluation]:
    """One of each of the newest versions that answer."""
    answering = agent.versions.exclude(run__method__in=scoring_methods()).order_by("-created_at")[:MOST_VERSIONS]
    newest = (version.evaluations.filter(artifact=None).first() for version in answering)
    return [evaluation for evaluation in newest if evaluation]


def _answers(evaluation: Evaluation) -> list[tuple[Sequence[Message], str]]:
    """Whole prompts with the version's answers, less those whose prompt is no longer stored."""
    samples = (evaluation.report.get("guards") or {}).get("samples", [])
    texts = {sample["prompt_key"]: sample["new"]["answer"] for sample in samples if "prompt_key" in sample}
    agent = evaluation.version.agent
    stored = dict(agent.traces.filter(prompt_key__in=texts).values_list("prompt_key", "prompt"))
    return [(ask_agent(agent, prompt), texts[key]) for key, prompt in stored.items()]
