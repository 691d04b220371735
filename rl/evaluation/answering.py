"""Versions whose answers are right or wrong, measured by how many are right. It comes before all other evidence."""

from __future__ import annotations

from dataclasses import replace

from rl.base.leaves import leaf
from rl.base.records import Report
from rl.evaluation import SCORERS
from rl.evaluation.accepted import Accepted
from rl.evaluation.contest import of_each
from rl.evaluation.gate import FEWEST_PROMPTS
from rl.evaluation.guards.measure import Watch
from rl.evaluation.measures import reward as rewards
from rl.evaluation.measures.right import count_right, describe_right, in_words
from rl.evaluation.subject import Measured, Subject
from rl.evaluation.wording import RIGHT


def decides(accepted: Accepted) -> bool:
    """Few prompts of a cross-fitted set too: nothing else is there to decide by."""
    return accepted.kind.has_right_answers and (len(accepted.rows) >= FEWEST_PROMPTS or bool(accepted.unseen))


def measure_right(subject: Subject, accepted: Accepted, share: float, report: Report) -> Measured:
    """``share``: of the prompts that are held out, 0 to 1."""
    watch = subject.watch(accepted.rows, report, accepted.kind)
    _ask(subject, watch, report)
    guards = watch.guards()  # of the version's own answers, also to prompts that it has learned
    own = zip(watch.asked, watch.answers["new"], strict=True)
    watch.answers["new"] = [accepted.unseen.get(row["prompt_key"], answer) for row, answer in own]
    earnings = count_right(replace(accepted, rows=list(watch.asked)), watch.answers)
    verdict = rewards.judge(earnings, share or 1.0, RIGHT, subject.margin, subject.look)
    figures = describe_right(earnings, accepted.kind)
    verdict = replace(verdict, reason=f"{in_words(figures)}. {verdict.reason}")
    verdict = guards.over(verdict)
    described = {**rewards.describe(earnings, verdict, "right", subject.margin), **figures, "guards": guards.report}
    evidence = {"kind": "right", "difference": described["difference"], "prompts": len(earnings.rows)}
    weighed = {"decided_by": "right", "evidence": [evidence], "cross_fitted": bool(accepted.unseen)}
    return Measured(rewards.describe_columns(earnings, verdict), {**described, **weighed})


def _ask(subject: Subject, watch: Watch, report: Report) -> None:
    """Loads the models, each of which then answers; no pair is scored."""
    score = leaf(SCORERS["preference"]).score_versions
    options = {"max_length": subject.max_length, "report": report, "also": watch.speaker}
    of_each(subject.contest, lambda base, compared: score(base, compared, [], **options))
