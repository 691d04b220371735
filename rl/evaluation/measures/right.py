"""Where answers are right or wrong, versions are measured by how many are right: it comes before all other evidence.

No judge is asked: an answer is right if it says what people accepted. Every prompt, which no version has learned from, is
asked once of each model, so the versions are compared pair by pair, by an exact test."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from statistics import fmean
from typing import Any

from rl.base.leaves import leaf
from rl.base.records import GeneratedAnswer, Report
from rl.data_formatter import read_training_rows
from rl.data_formatter.answer_kinds import AnswerKind, normalise
from rl.data_formatter.jsonl import UNSEEN, read_unseen
from rl.dataset_builder import DataOptions
from rl.dataset_builder.accepted_answers import accepted_text, folds_of, kind_of
from rl.dataset_builder.capped import build_rows
from rl.dataset_builder.frozen.files import HELD_OUT, TRAIN
from rl.dataset_builder.frozen.folding import learned_keys
from rl.dataset_builder.read.groups import Tally
from rl.dataset_builder.read.ratings import DatabaseSource
from rl.evaluation import MODELS, SCORERS, of_each
from rl.evaluation.gate import FEWEST_PROMPTS
from rl.evaluation.measures.fields import shares_right
from rl.evaluation.measures.reward import Earnings, describe, earn_by_answers, judge, thin_out
from rl.evaluation.subject import Measured, Subject
from rl.models import ModelVersion, TrainingRun, TrainingSet

Row = Mapping[str, Any]
MOST_CLASSES = 30
"""The most frequent ones are told of."""


@dataclass(frozen=True, slots=True)
class Accepted:
    kind: AnswerKind
    rows: list[Row]
    """One of each prompt, in an order that has nothing to do with what they say; ``accepted``: its right answers."""
    learned: int = 0
    """Prompts that were left out, because a version has learned from them."""
    later: int = 0
    """Prompts among the rows that nobody had corrected or liked when the version was trained."""
    unseen: Mapping[str, GeneratedAnswer] = field(default_factory=dict)
    """By prompt of a cross-fitted version: what an adapter answered that was trained like it on other prompts."""

    @property
    def decide(self) -> bool:
        """Few prompts of a cross-fitted set too: nothing else is there to decide by."""
        return self.kind.has_right_answers and (len(self.rows) >= FEWEST_PROMPTS or bool(self.unseen))


def accepted_answers(training_set: TrainingSet, run: TrainingRun | None, *compared: ModelVersion | None) -> Accepted:
    """Those that the set holds out, and those that people have accepted since. ``run``: that made the version; of a
    cross-fitted set its own is measured by what it left. ``compared``: the others."""
    kind, folds = kind_of(training_set), folds_of(training_set)
    if not kind.has_right_answers:
        return Accepted(kind, [])
    own = run is not None and run.training_set_id == training_set.pk
    unseen = read_unseen(run.directory / UNSEEN) if folds and own and run else {}
    stored = _by_prompt(_read_stored(training_set, unseen))
    tested = _without_learned(stored, *compared)
    since = _by_prompt(row for row in _accepted_now(training_set) if row["prompt_key"] not in stored) if run else {}
    later = _without_learned(since, run.version, *compared) if run else []
    rows = thin_out([*tested, *later])
    asked = sum(row["prompt_key"] in since for row in rows)
    return Accepted(kind, rows, len(stored) - len(tested), asked, unseen)


def _by_prompt(rows: Iterable[Row]) -> dict[str, Row]:
    by_prompt: dict[str, dict[str, Any]] = {}
    for row in rows:
        asked = by_prompt.setdefault(row["prompt_key"], {**row, "accepted": []})
        asked["accepted"].append(accepted_text(row))
    return dict(by_prompt)


def _without_learned(by_prompt: Mapping[str, Row], *versions: ModelVersion | None) -> list[Row]:
    keys = {row["split_key"] for row in by_prompt.values()}
    learned = set().union(*(learned_keys(version, keys) for version in versions))
    return [row for row in by_prompt.values() if row["split_key"] not in learned]


def _read_stored(training_set: TrainingSet, unseen: Mapping[str, GeneratedAnswer]) -> Iterator[Row]:
    """Held-out ones, and those that were trained on where an adapter answered that had not learned from them."""
    for name in (HELD_OUT, TRAIN) if unseen else (HELD_OUT,):
        for row in read_training_rows(training_set.directory / name, training_set.method):
            if accepted_text(row) and (name == HELD_OUT or row["prompt_key"] in unseen):
                yield row


def _accepted_now(training_set: TrainingSet) -> Iterator[Row]:
    """As the set would be written now. Reads all feedback of the agent."""
    options = DataOptions(**training_set.stats.get("options", {}))
    source = DatabaseSource(training_set.agent, sessions=options.sessions)
    if training_set.source == source.name:
        for of_prompt in build_rows(training_set.method, training_set.agent, source, options, Tally()).prompts():
            yield from filter(accepted_text, of_prompt.rows)


def measure_right(subject: Subject, accepted: Accepted, share: float, report: Report) -> Measured:
    """``share``: of the prompts that are held out, 0 to 1."""
    watch = subject.watch(accepted.rows, report, accepted.kind)
    # loads the models, each of which then answers; no pair is scored
    score = leaf(SCORERS["preference"]).score_versions
    options = {"max_length": subject.max_length, "report": report, "also": watch.speaker}
    of_each(subject.contest, lambda base, manner, compared: score(base, compared, [], manner=manner, **options))
    guards = watch.guards()  # of the version's own answers, also to prompts that it has learned
    own = zip(watch.asked, watch.answers["new"], strict=True)
    watch.answers["new"] = [accepted.unseen.get(row["prompt_key"], answer) for row, answer in own]
    earnings = count_right(watch.asked, watch.answers, accepted.kind)
    verdict, groups = judge(earnings, "right", share or 1.0, subject)
    figures = describe_right(earnings, accepted.kind)
    verdict = guards.over(replace(verdict, reason=f"{in_words(figures)}. {verdict.reason}"))
    measured = describe(earnings, verdict, "right", subject.agent.gate_margin, guards)
    evidence = {"kind": "right", "difference": measured.report["difference"], "prompts": len(earnings.rows)}
    weighed = {"decided_by": "right", "evidence": [evidence], "cross_fitted": bool(accepted.unseen)}
    of_set = {"left_out": accepted.learned, "later": accepted.later}
    return replace(measured, report={**measured.report, **figures, **weighed, **of_set, **groups.report})


def count_right(
    rows: Sequence[Row], answers: Mapping[str, Sequence[GeneratedAnswer | None]], kind: AnswerKind
) -> Earnings:
    """``answers``: of the models, in the order of the rows. 1 for a right answer, else 0; prompts without room are left
    out."""

    def reward(row: Row, answer: GeneratedAnswer | None) -> float | None:
        return float(kind.is_right(answer.text, row["accepted"])) if answer else None

    return earn_by_answers(rows, answers, reward)


def describe_right(earnings: Earnings, kind: AnswerKind) -> dict[str, Any]:
    """Beside the figures of rewards: the kind of the answers, right ones of each model, by class or by field, and what the
    new version takes for what."""
    if kind.kind == "closed":
        parts: dict[str, Any] = {"classes": _by_class(earnings)}
    else:
        parts = {"fields": shares_right(lambda row, text: kind.compare(text, row["accepted"][0]), earnings)}
    figures = {
        "answers": {"kind": kind.kind, "reason": kind.reason},
        "right": {name: int(sum(earnings.rewards[name])) for name in MODELS},
        "prompts": len(earnings.rows),
        "of_kind": {name: fmean(map(kind.is_of_kind, texts)) for name, texts in earnings.answers.items() if texts},
        **parts,
    }
    return {**figures, "said": in_words(figures)}


def _by_class(earnings: Earnings) -> dict[str, Any]:
    wanted = [normalise(row["accepted"][0]) for row in earnings.rows]
    confused = Counter(
        (right, normalise(text))
        for right, text, hit in zip(wanted, earnings.answers["new"], earnings.rewards["new"], strict=True)
        if not hit
    )
    hits = {model: Counter(compress(wanted, earnings.rewards[model])) for model in MODELS}
    return {
        "rows": [
            {"name": name, "prompts": prompts, "right": {model: hits[model][name] for model in MODELS}}
            for name, prompts in Counter(wanted).most_common(MOST_CLASSES)
        ],
        "confused": [
            {"wanted": right, "given": given[:80], "times": times} for (right, given), times in confused.most_common(10)
        ],
    }


def in_words(report: Mapping[str, Any]) -> str:
    """Such as "Right in 69 of 80 (was 0); most often confused: cash with transfers"."""
    right, prompts = report["right"], report["prompts"]
    text = f"Right in {right['new']} of {prompts} (was {right['current']})"
    confused = report.get("classes", {}).get("confused") or []
    most = next((pair for pair in confused if pair["times"] > 1), None)
    return f"{text}; most often confused: {most['wanted']} with {most['given'] or 'nothing'}" if most else text
