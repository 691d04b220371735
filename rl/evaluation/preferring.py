"""Versions that answer, measured by what people prefer: by their fresh answers and by the held-out ones; and reward models,
which only rank.

The weightiest evidence that can say something decides alone, and the others are shown beside it: people's picks between
answers of both versions, else fresh answers that a judge compares, else how the versions rank answers that are there. To
take whichever of three is in favour would make three chances of one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from statistics import fmean
from typing import Any, Final

from django.conf import settings

from rl.base.errors import BadFile, JudgeFailed, UsageError
from rl.base.leaves import leaf
from rl.base.measurements import Interval, wilson
from rl.base.records import Report
from rl.collect.command_center import widget_choice
from rl.data_formatter.answer_kinds import FREE, AnswerKind
from rl.data_formatter.opinions import stable_hash
from rl.data_formatter.runs import prompt_messages, tools_column
from rl.dataset_builder import Split
from rl.dataset_builder.read.runs import OfferedTools, with_calls
from rl.dataset_builder.wording import ask_agent
from rl.evaluation import MODELS
from rl.evaluation.gate import Verdict, decide, decide_preferences
from rl.evaluation.guards.measure import Guards, Watch, one_of_each_prompt, skip
from rl.evaluation.held_out import HeldOut, Labels
from rl.evaluation.judges import Duel, Judge, Judged
from rl.evaluation.judges.servers import OWN, find_server
from rl.evaluation.measures import fresh
from rl.evaluation.measures import preference as pairs
from rl.evaluation.measures.fresh import Fresh, Unheard
from rl.evaluation.stats.budget import ONCE, Look
from rl.evaluation.subject import Measured, Subject, evaluation_fields
from rl.judge.labels import text_of
from rl.lm.model_path import is_reward_model
from rl.models import Agent, Feedback, ModelVersion, prompt_key
from rl.models.traces import answered_by
from rl.training.calibration import calibration

FEWEST_PROMPTS = 20
"""With picks at fewer prompts they are shown and decide nothing."""
_SHARES = {Feedback.Choice.LEFT: 1.0, Feedback.Choice.RIGHT: 0.0}
"""How much of a win a pick is for the answer on the left; a tie and "both bad" are half of one."""


@dataclass(frozen=True, slots=True)
class Picks:
    shares: tuple[float, ...]
    """How often the new version's answer was picked, of each prompt."""
    picks: int

    def interval(self, confidence: float = 0.95) -> Interval:
        """Wilson's, over prompts."""
        return wilson(sum(self.shares), len(self.shares), confidence)

    def as_dict(self) -> dict[str, Any]:
        figures = {"share": asdict(self.interval()), "prompts": len(self.shares), "picks": self.picks}
        return {"kind": "picks", **figures}


def count_picks(agent: Agent, version: ModelVersion, other: ModelVersion | None) -> Picks | None:
    """Side-by-side picks between answers of the two; ``other``: None for the base model. None where nobody picked."""
    shares: defaultdict[str, list[float]] = defaultdict(list)
    rows = Feedback.objects.filter(agent=agent, kind=Feedback.Kind.COMPARISON, is_current=True).order_by()
    for side, opposite in (("trace", "other_trace"), ("other_trace", "trace")):
        duels = rows.filter(answered_by(version, f"{side}__"), answered_by(other, f"{opposite}__"))
        for choice, key in duels.values_list("choice", "trace__prompt_key"):
            share = _SHARES.get(Feedback.Choice(choice), 0.5)
            shares[key].append(share if side == "trace" else 1 - share)
    if not shares:
        return None
    return Picks(tuple(fmean(values) for values in shares.values()), sum(map(len, shares.values())))


@dataclass(frozen=True, slots=True)
class Terms:
    """Under which a verdict is given."""

    look: Look
    margin: float
    """Loss that is bearable."""
    held_out_share: float
    most_prompts: int
    """That fresh answers are asked for."""


@dataclass(frozen=True, slots=True)
class Weighed:
    verdict: Verdict
    report: dict[str, Any]
    """``decided_by``: picks, fresh or margins; ``evidence``: of each kind that there is, the weightiest first."""


def weigh(
    picked: Picks | None, fresh: Fresh | Unheard | None, margins: Verdict, shown: dict[str, Any], terms: Terms
) -> Weighed:
    """``margins``: what the gate says of the held-out answers' relative margins; ``shown``: its figures. A judge that could
    not be asked leaves open what it would have decided: weaker evidence does not step in for it."""
    evidence = [of_kind.as_dict() for of_kind in (picked, fresh) if of_kind]
    evidence.append({"kind": "margins", **shown})
    decided_by, verdict = _decide(picked, fresh, margins, terms)
    return Weighed(verdict, {"decided_by": decided_by, "evidence": evidence})


def _decide(picked: Picks | None, fresh: Fresh | Unheard | None, margins: Verdict, terms: Terms) -> tuple[str, Verdict]:
    if picked and len(picked.shares) >= FEWEST_PROMPTS:
        source = f"people picked between answers of both {picked.picks} times"
        return "picks", _on_shares(picked, source, terms)
    if isinstance(fresh, Unheard):
        reason = f"Fresh answers could not be compared: {fresh.problem}. Evaluate again when that is mended."
        return "fresh", replace(margins, decision="undecided", ratings_needed=None, reason=reason)
    if fresh and fresh.judge.beats_chance:
        agreement = fresh.judge.agreement
        source = (
            f"fresh answers to questions that neither has learned from, compared by {fresh.judge.name}, which agrees with "
            f"people on {agreement.value:.0%} of {fresh.judge.prompts} prompts (the longer answer: {fresh.judge.longer:.0%})"
        )
        return "fresh", _on_shares(fresh, source, terms)
    return "margins", margins


def _on_shares(preferred: Picks | Fresh, source: str, terms: Terms) -> Verdict:
    return decide_preferences(
        [share - 0.5 for share in preferred.shares],
        preferred.interval,
        source,
        held_out_share=terms.held_out_share,
        most_prompts=terms.most_prompts,
        look=terms.look,
        margin=terms.margin,
    )


OWN_JUDGE: Final = "a judge that has learned from its users' ratings"
MOST_CHECKS: Final = 100
"""How many of people's comparisons a model on a server is checked on: each is two requests."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scale:
    """What a missing held-out prompt costs."""

    ratings_per_prompt: float
    things: str = "ratings"


def measure_preference(
    subject: Subject,
    scale: Scale,
    held_out: HeldOut,
    labels: Labels,
    report: Report,
    *,
    own_data: bool = False,
    kind: AnswerKind = FREE,
) -> Measured:
    """``labels``: what a judge of fresh answers learns from. ``own_data``: the held-out pairs are none of the agent's, and
    no other prompts are asked. ``kind``: of the agent's answers, for the guard rails."""
    if is_reward_model(subject.weights):
        return _of_reward_model(subject, scale, held_out, report)
    asked = _rows_to_ask(subject, held_out, own_data)
    watch = subject.watch(asked, report, kind)
    scores = pairs.compare(subject.contest, held_out, report, also=watch.speaker)
    watch.chosen = pairs.likelier_chosen(scores)
    guards = watch.guards()
    look, margin = subject.look, subject.agent.gate_margin
    margins = _ask_gate(scores, scale, held_out, margin, look)
    shown = {"difference": asdict(margins.difference), "pairs": len(scores.rows), "prompts": scores.prompts}
    picks = count_picks(subject.agent, subject.version, subject.current) if subject.version else None
    terms = Terms(look, margin, held_out.share, settings.EVALUATION_PROMPTS)
    weighed = weigh(picks, _compare_answers(subject, labels, watch, report), margins, shown, terms)
    measured = _describe_ranking(scores, guards.over(weighed.verdict), guards, margin)
    return replace(measured, report={**measured.report, **weighed.report})


def _rows_to_ask(subject: Subject, held_out: HeldOut, own_data: bool) -> list[pairs.Row]:
    """Prompts with held-out answers first, by a hash, then the newest others."""
    rows = one_of_each_prompt(held_out.rows)[: settings.EVALUATION_PROMPTS]
    if own_data:
        return rows
    known = {row["prompt_key"] for row in held_out.rows}
    return [*rows, *prompts_asked(subject.agent, held_out.share, known, settings.EVALUATION_PROMPTS - len(rows))]


def _compare_answers(
    subject: Subject, labels: Labels, watch: Watch, report: Report
) -> fresh.Fresh | fresh.Unheard | None:
    if not watch.answers:
        return None
    try:
        judge = choose_judge(subject.judge, subject.base_model, subject.max_length, report)
        return fresh.measure(judge, labels.method, labels.rows, watch.asked, watch.answers)
    except JudgeFailed as failure:
        report("log", {"text": f"fresh answers are not compared: {failure}"})
        return fresh.Unheard(str(failure))


def _of_reward_model(subject: Subject, scale: Scale, held_out: HeldOut, report: Report) -> Measured:
    """Worse than guessing is rejected; nothing is promoted."""
    scores = pairs.compare(subject.contest, held_out, report, "reward_model")
    verdict = _ask_gate(scores, scale, held_out, 0.0, ONCE)
    if verdict.decision != "reject":
        reason = f"{verdict.reason} It is a reward model: it scores answers, and is never promoted."
        verdict = replace(verdict, decision="undecided", reason=reason)
    measured = _describe_ranking(scores, verdict, skip("a reward model gives no answers", subject.agent, None), 0.0)
    return replace(measured, report={**measured.report, **calibration(scores.rows, scores.new)})


def _ask_gate(scores: pairs.Comparison, scale: Scale, held_out: HeldOut, margin: float, look: Look) -> Verdict:
    return decide(
        scores.new,
        scores.current,
        ratings_per_prompt=scale.ratings_per_prompt,
        held_out_share=held_out.share,
        margin=margin,
        things=scale.things,
        look=look,
    )


def _describe_ranking(scores: pairs.Comparison, verdict: Verdict, guards: Guards, margin: float) -> Measured:
    means = [pairs.accuracy_of(getattr(scores, name)).value for name in MODELS]
    fields = evaluation_fields(verdict, len(scores.rows), scores.prompts, means)
    return Measured(fields, {**pairs.describe(scores, verdict, margin), "guards": guards.report})


MOST_READ = 20_000
"""How many of an agent's answers are looked through, the newest first."""


def prompts_asked(agent: Agent, share: float, known: Collection[str], most: int) -> list[dict[str, Any]]:
    """At most so many of the newest prompts of the agent that a training set with this share holds out, each once, and none
    with a key in ``known``; held out by the same hash, whether anybody rated an answer or not. As new questions come, old
    ones that decided before are asked no longer."""
    return list(islice(_newest(agent, share, set(known)), most))


def _newest(agent: Agent, share: float, known: set[str]) -> Iterator[dict[str, Any]]:
    """An agent that chooses widgets is asked as its templates say, and never by the bare question of a simulation. Tools are
    offered as in rows of training sets."""
    offered = OfferedTools(agent)
    split, chooses = Split(agent, share), agent.pair_type != Agent.PairType.PREFERENCE
    answers = agent.traces.order_by("-created_at", "id").values_list("prompt", "prompt_key", "details")
    for prompt, key, details in answers[:MOST_READ].iterator(chunk_size=500):
        if key in known or not prompt or prompt[-1]["role"] != "user" or (chooses and widget_choice(details, prompt)):
            continue
        known.add(key)
        if split.is_held_out(prompt_key(prompt)):
            details = details if isinstance(details, dict) else {}
            given = prompt_messages(with_calls(ask_agent(agent, prompt), details))
            yield {"prompt": given, "prompt_key": key, "details": details, **tools_column(offered(details))}


def choose_judge(name: str, base_model: str, max_length: int, report: Report) -> Judge:
    """``name``: empty or OWN for the agent's own, which reads answers by this base model, up to so many tokens. Raises
    JudgeFailed for a name that is not registered, and for a JUDGES_FILE that cannot be read."""
    if not name or name == OWN:
        options = {"max_length": max_length, "report": report}
        return Judge(OWN_JUDGE, lambda *rows: leaf("rl.evaluation.torch.scoring").judge(base_model, *rows, **options))
    try:
        server = find_server(name)
    except (UsageError, BadFile) as error:
        raise JudgeFailed(str(error)) from error

    def compare(labelled: Sequence[Row], contrasts: Sequence[Row], duels: Sequence[Duel]) -> Judged:
        # it learns nothing, is checked on one contrast of each prompt, and cannot compare answers to different ones
        by_prompt = {row["prompt_key"]: row for row in reversed(contrasts) if "rejected_prompt" not in row}
        checked = sorted(by_prompt, key=lambda key: stable_hash("check " + key))[:MOST_CHECKS]
        known = [
            Duel(row["prompt"], row["prompt_key"], text_of(row["chosen"]), text_of(row["rejected"]))
            for row in map(by_prompt.__getitem__, checked)
        ]
        shares = leaf("rl.evaluation.judges.asking").compare(server, [*known, *duels], report)
        checks = [(duel.prompt_key, [share]) for duel, share in zip(known, shares, strict=False)]
        return Judged(checks, [[share] for share in shares[len(known) :]], opinions=0)

    return Judge(f"{server.name} ({server.model})", compare)
