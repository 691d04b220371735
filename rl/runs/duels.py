"""What people's picks decide about a new version that waits: looked at once a minute, and acted on as the gate's
verdict is."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final

from django.conf import settings
from django.db import transaction

from rl.base.locks import try_lock
from rl.base.records import Report, silent
from rl.evaluation.duels import MADE as MADE
from rl.evaluation.duels import (
    Picks,
    count_picks,
    end_duels,
    is_over,
    judge_picks,
    names_of,
    stake_of,
    what_decides,
)
from rl.evaluation.gate import Verdict
from rl.evaluation.groups import of_picks
from rl.models import AnswerPair, Deployment, Evaluation, ModelVersion
from rl.operations.webhooks.events import version_judged
from rl.runs.after_gate import act_on_verdict
from rl.runs.choosing import RunOptions

_UNDECIDED: Final = Evaluation.Verdict.UNDECIDED
OVERTAKEN: Final = "Another version is in use since then: evaluate_model compares them anew."
NONE_LEFT: Final = "No duel is left; evaluate_model makes some of newer questions."
BY_HAND: Final = "A person has put it into use."


@dataclass(frozen=True, slots=True)
class Poll:
    """How a version that waits stands in people's picks."""

    evaluation: Evaluation
    picks: Picks
    verdict: Verdict
    more: str
    """How many more decide, or what they have decided."""
    waiting: int
    """Duels that nobody has decided."""
    is_in_use: bool
    """A person did not wait."""

    @property
    def end(self) -> str:
        """Why nobody is asked any more, where the picks have not decided; empty while people are asked."""
        if self.is_in_use:
            return BY_HAND
        if is_over(self.picks, self.evaluation.version.agent.gate_margin):
            return self.verdict.reason
        return "" if self.waiting else f"{self.verdict.reason} {NONE_LEFT}"


def take_poll(evaluation: Evaluation | None) -> Poll | None:
    """None where people are not asked about it: it is decided, or has no duels, or another version is in use since then."""
    if evaluation is None or evaluation.verdict != _UNDECIDED or not evaluation.report.get(MADE):
        return None
    version, other = evaluation.version, evaluation.against
    in_use = Deployment.champion(version.agent)
    if in_use not in (other, version):
        return None
    picks, margin = count_picks(version.agent, version, other), version.agent.gate_margin
    terms = stake_of(version, other), margin, names_of(version, other)
    verdict = judge_picks(picks, *terms)
    waiting = AnswerPair.find_open(AnswerPair.Origin.DUEL, version=version).count()
    more = what_decides(picks, *terms) if verdict.decision == _UNDECIDED else verdict.reason.rstrip(".")
    return Poll(evaluation, picks, verdict, more, waiting, in_use == version)


def find_waiting() -> Iterator[Evaluation]:
    """The newest evaluations of versions that people are, or were, asked about."""
    waiting = (ModelVersion.Stage.EVALUATED, ModelVersion.Stage.EXPORTED, ModelVersion.Stage.DEPLOYED)
    duels = AnswerPair.objects.filter(origin=AnswerPair.Origin.DUEL, version__stage__in=waiting).order_by()
    for number in duels.values_list("version", flat=True).distinct():
        rows = Evaluation.objects.filter(version=number, artifact=None).select_related("version__agent", "against")
        if (newest := rows.first()) and newest.verdict == _UNDECIDED and newest.report.get(MADE):
            yield newest


def is_due(evaluation: Evaluation) -> bool:
    now = take_poll(evaluation)
    return now is None or now.verdict.decision != _UNDECIDED or bool(now.end)


def settle(evaluation: Evaluation, report: Report = silent) -> Evaluation:
    """What became of it: where the picks decide, an evaluation of their own, which is acted on; where nobody is to be asked
    any more, the same one, which says so. Does nothing while another process is at it."""
    agent = evaluation.version.agent
    file = settings.DATA_DIR / "locks" / f"duels-{agent.pk}.lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as handle:
        if not try_lock(handle.fileno()):
            return evaluation
        evaluation.refresh_from_db()
        now = take_poll(evaluation)
        if now is None:
            return _end(evaluation, OVERTAKEN)
        if now.verdict.decision != _UNDECIDED:
            return _act(now, report)
        return _end(evaluation, now.end) if now.end else evaluation


def _end(evaluation: Evaluation, reason: str) -> Evaluation:
    if evaluation.verdict == _UNDECIDED and evaluation.report.get(MADE):
        evaluation.report |= {MADE: 0, "reason": f"{evaluation.report['reason']} {reason}"}
        with transaction.atomic():
            evaluation.save(update_fields=["report"])
            end_duels(version=evaluation.version)
    return evaluation


def _act(now: Poll, report: Report) -> Evaluation:
    """The verdict is stored once it was acted on: what is killed in between is done again a minute later."""
    before, version = now.evaluation, now.evaluation.version
    groups = of_picks(version.agent, now.picks, before.report.get("groups", {}).get("rows", ()))
    verdict = groups.over(now.verdict)
    evidence = [now.picks.as_dict(), *(part for part in before.report["evidence"] if part["kind"] != "picks")]
    changed = {"reason": verdict.reason, "decided_by": "picks", "evidence": evidence, MADE: 0, **groups.report}
    measured = ("training_set", "against", "pairs", "prompts", "accuracy", "base_accuracy", "against_accuracy")
    made = Evaluation(
        version=version,
        verdict=verdict.decision,
        report={**before.report, **changed, "difference": asdict(verdict.difference)},
        **{name: getattr(before, name) for name in measured},
    )
    act_on_verdict(version, made, RunOptions.from_dict(version.run.options), report)
    with transaction.atomic():
        made.save()
        before.report |= {MADE: 0}
        before.save(update_fields=["report"])
        version_judged(made)
        end_duels(version=version)
    return made
