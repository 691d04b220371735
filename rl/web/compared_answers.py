"""Answers of two versions to the same prompts, as a page shows them: which is the better one and by whom, what changed in
between, and what the judge went by."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from statistics import fmean
from typing import Any, Final

from django.utils.translation import gettext, gettext_noop

from rl.models import Agent, Evaluation, Feedback, TrainingSet
from rl.runs.duels import count_picks

MOST_WORDS: Final = 400
"""In a text; in longer ones nothing is marked: the time grows with the square."""
LEAST_COMMON: Final = 0.4
"""Share of the words; with fewer the texts are two texts, and marks on nearly all of them help nobody."""
SIMULATED: Final = "simulated-"
"""What the names of a demo's raters begin with."""
NEWEST: Final = 2000
"""Ratings among which raters are counted."""
ALIKE: Final = 0.1
"""Difference in length that is not worth a word."""
SIDES: Final = ("before", "after")
Marked = list[tuple[str, bool]]
"""Parts of a text, each with whether the other text has it too."""


@dataclass(frozen=True, slots=True)
class ComparedAnswers:
    prompt: str
    before: str
    after: str
    better: Mapping[str, float]
    """Which one, by people, judge, reward or right, the weightiest first: 1 after, 0 before, half neither."""
    right: tuple[bool, bool] | None
    """Whether each is; None of answers that are neither right nor wrong."""
    accepted: str
    """A right answer, where it is known."""
    weak: list[list[str]]
    """What the guard rails hold against each, such as "says little"."""

    @property
    def outcome(self) -> str:
        """``won``, ``lost`` or ``even``; empty where nobody says."""
        share = next(iter(self.better.values()), None)
        if share is None:  # what can be read and what cannot is told without a judge
            return "lost" if set(self.weak[1]) - set(self.weak[0]) else ""
        return "won" if share > 0.5 else "lost" if share < 0.5 else "even"

    @property
    def both_weak(self) -> bool:
        return all(self.weak)

    @property
    def has_changed(self) -> bool:
        return self.before.strip() != self.after.strip()

    @property
    def marked(self) -> tuple[Marked, Marked]:
        """Both texts in parts."""
        return mark_words(self.before, self.after)


def read_compared(evaluation: Evaluation) -> list[ComparedAnswers]:
    """All that the report has, with people's picks between the two versions. Two queries."""
    picks = count_picks(evaluation.version.agent, evaluation.version, evaluation.against)
    by_people = dict(zip(picks.keys, picks.shares, strict=True))
    is_right = evaluation.report.get("measure") == "right"
    samples = (evaluation.report.get("guards") or {}).get("samples", ())
    before = "current" if evaluation.against_id else "base"
    errors = {
        (of["prompt"], of[name]["answer"]): of[name]["errors"]
        for of in samples
        for name in (before, "new")
        if name in of
    }
    return [
        ComparedAnswers(
            prompt=row["prompt"],
            before=row["before"],
            after=row["after"],
            better=_who_says(row, by_people.get(row.get("prompt_key", "")), is_right),
            right=(row["rewards"][0] == 1, row["rewards"][1] == 1) if is_right and "rewards" in row else None,
            accepted=next(iter(row.get("accepted", ())), ""),
            weak=[[kind.replace("_", " ") for kind in errors.get((row["prompt"], row[side]), ())] for side in SIDES],
        )
        for row in evaluation.before_and_after
    ]


def _who_says(row: Mapping[str, Any], by_people: float | None, is_right: bool) -> dict[str, float]:
    shares = {gettext_noop("people"): by_people, gettext_noop("judge"): row.get("side")}
    if "rewards" in row:
        old, new = row["rewards"]
        shares[gettext_noop("right") if is_right else gettext_noop("reward")] = (new > old) + (new == old) / 2
    return {name: share for name, share in shares.items() if share is not None}


CHOICES: Final[dict[str, tuple[str, Callable[[ComparedAnswers], bool]]]] = {
    "": (gettext_noop("All"), lambda _: True),
    "lost": (gettext_noop("Where it lost"), lambda row: row.outcome == "lost"),
    "won": (gettext_noop("Where it won"), lambda row: row.outcome == "won"),
    "changed": (gettext_noop("Changed"), lambda row: row.has_changed),
    "weak": (gettext_noop("Both weak"), lambda row: row.both_weak),
}
"""By what stands in an address."""


def describe_compared(evaluation: Evaluation, which: str, most: int | None = None) -> dict[str, Any]:
    """What a page says of the answers before and after, of which it shows ``most``. ``which``: one of CHOICES, else all."""
    rows, which = read_compared(evaluation), which if which in CHOICES else ""
    counts = [(name, gettext(text), sum(map(chosen, rows))) for name, (text, chosen) in CHOICES.items()]
    answers = list(filter(CHOICES[which][1], rows))
    return {
        "which": which,
        "choices": [choice for choice in counts if choice[2] or choice[0] in ("", "lost", which)],
        "answers": answers[:most],
        "left_out": len(answers[most:]) if most else 0,
        "before_name": evaluation.against.name if evaluation.against else gettext("the base model"),
        "both_weak": sum(row.both_weak for row in rows),
        "why": say_why(evaluation, rows),
        "raters": name_raters(evaluation.version.agent, evaluation.training_set),
    }


def mark_words(before: str, after: str) -> tuple[Marked, Marked]:
    """What stands in one of them alone is marked; nothing where the texts have little in common, or are long."""
    old, new = (re.findall(r"\s*\S+|\s+", text) for text in (before, after))
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if max(len(old), len(new)) > MOST_WORDS or matcher.ratio() < LEAST_COMMON:
        return [(before, True)], [(after, True)]
    left: Marked = []
    right: Marked = []
    for kind, start, end, start_of_new, end_of_new in matcher.get_opcodes():
        left.append(("".join(old[start:end]), kind == "equal"))
        right.append(("".join(new[start_of_new:end_of_new]), kind == "equal"))
    return left, right


def say_why(evaluation: Evaluation, rows: Sequence[ComparedAnswers]) -> str:
    """How the length of free answers changed, how people like that, and whom the judge learned it from; empty without a
    judge."""
    parts = evaluation.report.get("evidence", ())
    judges = (part["judge"] for part in parts if part.get("kind") == "fresh" and "judge" in part)
    judge = next((known for known in judges if known.keys() >= {"longer", "prompts", "opinions"}), None)
    if not rows or not judge:
        return ""
    old, new = (fmean(len(getattr(row, side).strip()) for row in rows) for side in SIDES)
    word = gettext("Shorter: {new} characters instead of {old} on average.")
    if abs(new - old) <= ALIKE * max(old, new):
        word = gettext("As long as before: {new} characters on average.")
    elif new > old:
        word = gettext("Longer: {new} characters instead of {old} on average.")
    liked = gettext("The shorter answer was the preferred one on {share} of {number} rated prompts")
    if judge["longer"] > 0.5:
        liked = gettext("The longer answer was the preferred one on {share} of {number} rated prompts")
    share = f"{100 * max(judge['longer'], 1 - judge['longer']):.0f} %"
    text = f"{word} {liked}".format(new=f"{new:.0f}", old=f"{old:.0f}", share=share, number=judge["prompts"])
    learned = gettext("; the judge learned from {raters}")
    return f"{text}{learned.format(raters=_said_by(evaluation)) if judge['opinions'] else ''}."


def _said_by(evaluation: Evaluation) -> str:
    stats = evaluation.training_set.stats
    ratings = f", {stats['ratings_usable']} of {stats['ratings_read']} ratings" if "ratings_usable" in stats else ""
    return (name_raters(evaluation.version.agent, evaluation.training_set) or "its raters") + ratings


def name_raters(agent: Agent, training_set: TrainingSet | None = None) -> str:
    """Such as "2 raters and 5 simulated raters"; empty where nobody rated. ``training_set``: by when. One query."""
    rows = Feedback.objects.filter(agent=agent, is_current=True)
    rows = rows.filter(created_at__lte=training_set.created_at) if training_set else rows
    names = set(rows.order_by("-created_at", "id").values_list("rater", flat=True)[:NEWEST])
    simulated = sum(name.startswith(SIMULATED) for name in names)
    numbers = ((len(names) - simulated, "rater"), (simulated, "simulated rater"))
    return " and ".join(f"{number} {word}{'' if number == 1 else 's'}" for number, word in numbers if number)
