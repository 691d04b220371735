"""Versions that answer, measured by what people prefer: by their fresh answers and by the held-out ones; and reward models,
which only rank.

People's picks between answers of both versions decide, else fresh answers that a judge compares, where it would be right
even if all its errors were in favour of the new version. To take whichever is in favour would make two chances of one. How
the versions rank answers that are there is shown beside, and decides nothing about versions that answer."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, Final

from django.conf import settings

from rl.base.errors import BadFile, JudgeFailed, UsageError
from rl.base.leaves import leaf
from rl.base.measurements import Interval
from rl.base.records import GeneratedAnswer, Report
from rl.collect.command_center import widget_choice
from rl.config.guard_limits import guard_limits
from rl.data_formatter.answer_kinds import FREE, AnswerKind
from rl.data_formatter.opinions import stable_hash
from rl.data_formatter.runs import prompt_messages, tools_column
from rl.dataset_builder import Split
from rl.dataset_builder.read.runs import OfferedTools, with_calls
from rl.dataset_builder.wording import ask_agent
from rl.evaluation import COMPARED, MODELS
from rl.evaluation.duels import STAKE, Given, Picks, Sides, count_picks, judge_picks, names_of, stake_of
from rl.evaluation.gate import Verdict, decide, not_scored
from rl.evaluation.groups import of_preferences
from rl.evaluation.guards.measure import Guards, GuardWatch, one_of_each_prompt, skip
from rl.evaluation.held_out import HeldOut, Labels
from rl.evaluation.judges import Duel, Judge, Judged
from rl.evaluation.judges.servers import OWN, find_server
from rl.evaluation.measures import fresh
from rl.evaluation.measures import preference as pairs
from rl.evaluation.measures.fresh import Fresh, Unheard
from rl.evaluation.stats.budget import FIRST_STAKE, Look
from rl.evaluation.stats.intervals import sign_flip_p
from rl.evaluation.subject import Measured, Subject, evaluation_fields
from rl.judge.labels import text_of
from rl.models import Agent, prompt_key
from rl.training.calibration import calibration

ANY: Final = Sides("the new version", "the version in use")
NOTHING: Final = Interval(0.0, -0.5, 0.5)
FEWEST_JUDGED: Final = 8
"""Prompts with fewer of which a forecast says nothing."""
FEWEST_PROMPTS = 20
"""With picks at fewer prompts they are shown and decide nothing."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Under which a verdict is given."""

    look: Look
    """What the judge may promote by."""
    margin: float
    """Loss that is bearable."""
    stake: float = FIRST_STAKE
    """One-sided error at which the picks promote."""
    sides: Sides = ANY
    judge_decides: bool = True
    """Where people have not picked."""


@dataclass(frozen=True, slots=True)
class Weighed:
    verdict: Verdict
    report: dict[str, Any]
    """``decided_by``: picks or fresh, empty where neither can tell; ``evidence``: all there is, the weightiest first;
    ``stake``: where picks decide."""


def weigh(picked: Picks | None, fresh: Fresh | Unheard | None, margins: dict[str, Any], terms: Terms) -> Weighed:
    """``margins``: figures of how both rank held-out answers."""
    evidence = [of_kind.as_dict() for of_kind in (picked if picked and picked.picks else None, fresh) if of_kind]
    evidence.append({"kind": "margins", **margins})
    decided_by, verdict = _decide(picked, fresh, terms, margins["prompts"])
    staked = {STAKE: terms.stake} if decided_by == "picks" else {}
    return Weighed(verdict, {"decided_by": decided_by, "evidence": evidence, **staked})


def _decide(picked: Picks | None, fresh: Fresh | Unheard | None, terms: Terms, prompts: int) -> tuple[str, Verdict]:
    if picked and len(picked.shares) >= FEWEST_PROMPTS:
        return "picks", judge_picks(picked, terms.stake, terms.margin, terms.sides)
    if isinstance(fresh, Unheard):
        mend = "Evaluate again when that is mended."
        return "fresh", _open(f"Fresh answers could not be compared: {fresh.problem}. {mend}")
    if fresh and fresh.judge.beats_chance and len(fresh.sides) >= FEWEST_JUDGED:
        return "fresh", _forecast(fresh, terms)
    return "", _open(f"Nobody can tell yet, and people have to pick: {_why_open(fresh, prompts)}.")


def _why_open(fresh: Fresh | None, prompts: int) -> str:
    """``prompts``: that are held out with ratings."""
    if fresh is None and prompts < FEWEST_JUDGED:
        return f"{prompts} prompt{'' if prompts == 1 else 's'} held out, and at least {FEWEST_JUDGED} are needed"
    if fresh is None:
        return "no judge can learn from the ratings there are"
    if not fresh.judge.beats_chance:
        agreement, checked = fresh.judge.agreement, fresh.judge.prompts
        return f"that the judge agrees with people on {agreement.value:.0%} of {checked} prompts may be chance"
    return f"{len(fresh.sides)} fresh answers were compared, and at least {FEWEST_JUDGED} are needed"


def _open(reason: str, difference: Interval = NOTHING) -> Verdict:
    return Verdict("undecided", difference, reason)


def _forecast(fresh: Fresh, terms: Terms) -> Verdict:
    shown, least, judge = fresh.forecast, fresh.worst_case(terms.look.confidence), fresh.judge
    difference, line = Interval(*(end - 0.5 for end in (shown.value, shown.low, shown.high))), 0.5 - terms.margin
    figures = (
        f"the judge ({judge.name}) prefers it in {shown.value:.0%} ({shown.low:.0%} to {shown.high:.0%}) of "
        f"{len(fresh.sides)} fresh answers, and agrees with people on {judge.agreement.value:.0%} of {judge.prompts} "
        f"prompts (always taking the longer answer: {judge.longer:.0%})"
    )
    if shown.high < line:
        return Verdict("reject", difference, f"The new version is worse: {figures}.")
    surely = f"if all its errors were in favour of the new version, people would prefer it in {least:.0%} or more"
    by_chance = not terms.margin and sign_flip_p([side - 0.5 for side in fresh.sides]) > terms.look.level
    if least <= line or by_chance:
        return _open(f"Nobody can tell yet, and people have to pick: {figures}; {surely}.", difference)
    if not terms.judge_decides:
        return _open(f"Perhaps better, and people have to pick: {figures}.", difference)
    return Verdict("promote", difference, f"The new version is better: {figures}; {surely}.")


OWN_JUDGE: Final = "a program that has learned from its users' ratings"
MOST_CHECKS: Final = 100
"""How many of people's comparisons a model on a server is checked on: each is two requests."""
Row = Mapping[str, Any]


def measure_preference(
    subject: Subject,
    held_out: HeldOut,
    labels: Labels,
    report: Report,
    *,
    own_data: bool = False,
    kind: AnswerKind = FREE,
) -> Measured:
    """``labels``: what a judge of fresh answers learns from. ``own_data``: the held-out pairs are none of the agent's, and
    no other prompts are asked. ``kind``: of the agent's answers, for the guard rails."""
    if subject.is_reward_model:
        return _of_reward_model(subject, held_out, report)
    asked = _rows_to_ask(subject, held_out, own_data)
    watch = subject.watch(asked, report, kind)
    scores = pairs.compare(subject.contest, held_out, report, also=watch.speaker)
    watch.chosen = pairs.likelier_chosen(scores)
    guards = watch.guards()
    margin, margins = subject.agent.gate_margin, decide(scores.new, scores.current, held_out_share=held_out.share)
    shown = {"difference": asdict(margins.difference), "pairs": len(scores.rows), "prompts": scores.prompts}
    picks, terms = None, Terms(subject.look, margin, judge_decides=subject.agent.promoted_by != Agent.Decider.PICKS)
    if subject.version:
        sides = subject.version, subject.current
        picks = count_picks(subject.agent, *sides)
        terms = replace(terms, stake=stake_of(*sides), sides=names_of(*sides))
    compared = _compare_answers(subject, labels, watch, report)
    weighed = weigh(picks, compared, shown, terms)
    groups = of_preferences(subject.agent, weighed.report["decided_by"], picks, compared)
    verdict = margins if not_scored(scores.new) else groups.over(weighed.verdict)
    measured = _describe_ranking(scores, guards.over(verdict), guards, margin)
    report_of = {**measured.report, **weighed.report, **groups.report, "compared": _side_by_side(watch, compared)}
    return replace(measured, report=report_of, given=[] if own_data else answers_to_compare(subject.agent, watch))


def answers_to_compare(agent: Agent, watch: GuardWatch) -> list[Given]:
    """None of an agent that chooses widgets, which is asked in a form that is not for people."""
    if agent.pair_type != Agent.PairType.PREFERENCE:
        return []
    return [Given(row["prompt_key"], new, other, watch.speaker.most["new"]) for row, new, other in _both(watch)]


def _both(watch: GuardWatch) -> list[tuple[Row, GeneratedAnswer, GeneratedAnswer]]:
    """Pairs what was asked with the answers of the new version and of the one in use, or else of the base model."""
    answers = watch.answers
    if not answers:
        return []
    rows = zip(watch.asked, answers["new"], answers.get("current", answers.get("base", [])), strict=True)
    return [(row, new, other) for row, new, other in rows if new and other]


def _side_by_side(watch: GuardWatch, compared: Fresh | Unheard | None) -> list[dict[str, Any]]:
    """For people; ``side``: the judge's, None where it was not asked."""
    sides = dict(zip(compared.keys, compared.sides, strict=True)) if isinstance(compared, Fresh) else {}
    return [
        {
            "prompt": row["prompt"][-1]["content"] or "",
            "prompt_key": row["prompt_key"],
            "before": other.text,
            "after": new.text,
            "side": sides.get(row["prompt_key"]),
        }
        for row, new, other in _both(watch)[:COMPARED]
    ]


def _rows_to_ask(subject: Subject, held_out: HeldOut, own_data: bool) -> list[pairs.Row]:
    """Prompts with held-out answers first, by a hash, then the newest others."""
    rows = one_of_each_prompt(held_out.rows)[: settings.EVALUATION_PROMPTS]
    if own_data:
        return rows
    known = {row["prompt_key"] for row in held_out.rows}
    return [*rows, *prompts_asked(subject.agent, held_out.share, known, settings.EVALUATION_PROMPTS - len(rows))]


def _compare_answers(
    subject: Subject, labels: Labels, watch: GuardWatch, report: Report
) -> fresh.Fresh | fresh.Unheard | None:
    if not watch.answers:
        return None
    try:
        judge = choose_judge(subject.judge, subject.base_model, subject.max_length, report)
        watches = "degenerate_rate" in guard_limits(subject.agent.guard_limits)
        return fresh.measure(judge, labels.method, labels.rows, watch.asked, watch.answers, breakage_loses=watches)
    except JudgeFailed as failure:
        report("log", {"text": f"fresh answers are not compared: {failure}"})
        return fresh.Unheard(str(failure))


def _of_reward_model(subject: Subject, held_out: HeldOut, report: Report) -> Measured:
    """Worse than guessing is rejected; nothing is promoted."""
    scores = pairs.compare(subject.contest, held_out, report, "reward_model")
    verdict = decide(scores.new, scores.current, held_out_share=held_out.share)
    if verdict.decision != "reject":
        reason = f"{verdict.reason} It is a reward model: it scores answers, and is never promoted."
        verdict = replace(verdict, decision="undecided", reason=reason)
    measured = _describe_ranking(scores, verdict, skip("a reward model gives no answers", subject.agent, None), 0.0)
    return replace(measured, report={**measured.report, **calibration(scores.rows, scores.new)})


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

    def compare(_: Sequence[Row], contrasts: Sequence[Row], duels: Sequence[Duel]) -> Judged:
        # it learns nothing, is checked on one contrast of each prompt, and cannot compare answers to different ones
        by_prompt = {row["prompt_key"]: row for row in reversed(contrasts) if "rejected_prompt" not in row}
        checked = sorted(by_prompt, key=lambda key: stable_hash("check " + key))[:MOST_CHECKS]
        known = [
            Duel(row["prompt"], row["prompt_key"], text_of(row["chosen"]), text_of(row["rejected"]))
            for row in map(by_prompt.__getitem__, checked)
        ]
        shares = leaf("rl.evaluation.judges.asking").compare(server, [*known, *duels], report)
        checks = [(duel.prompt_key, share) for duel, share in zip(known, shares, strict=False)]
        return Judged(checks, shares[len(known) :], opinions=0)

    return Judge(f"{server.name} ({server.model})", compare)
