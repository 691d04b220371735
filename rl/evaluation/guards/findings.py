"""What a version is held to its guard rails by: a few answers of each model, and what was measured of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from rl.base.measurements import Distance, Interval
from rl.data_formatter.answer_kinds import FREE, AnswerKind
from rl.evaluation.lm_eval import TaskScores

FEWEST_PROMPTS = 8
"""That tell what is usual."""


@dataclass(frozen=True, slots=True)
class ModelAnswers:
    """One model's answers to the prompts that all models answered, in the same order."""

    texts: Sequence[str]
    errors: Sequence[Sequence[str]]
    """Kinds of each answer."""
    rewards: Sequence[float | None]

    @property
    def length(self) -> float:
        """Mean, in characters: models may cut the same text into other tokens."""
        return fmean(len(text.strip()) for text in self.texts)

    def count(self, kinds: Sequence[str]) -> int:
        """Answers with an error of one of these kinds."""
        return sum(any(kind in kinds for kind in of_answer) for of_answer in self.errors)

    def rate(self, kinds: Sequence[str]) -> float:
        return self.count(kinds) / len(self.texts)


@dataclass(frozen=True, slots=True)
class Findings:
    """What a version is held to its rails by."""

    new: ModelAnswers
    current: ModelAnswers
    preferred: Sequence[str]
    """The answers that people prefer; none where none are stored."""
    questions: Sequence[str] = ()
    """What was asked."""
    distance: Distance | None = None
    has_format: bool = False
    """A format is asked of the answers."""
    task: TaskScores | None = None
    chosen: Interval | None = None
    """How much likelier, in nats a token, the new version finds held-out preferred answers than the base model does."""
    kind: AnswerKind = FREE

    @property
    def tells_of_people(self) -> bool:
        """Enough free answers, and enough of those that people prefer, to say what is usual."""
        return not self.kind.has_right_answers and min(len(self.new.texts), len(self.preferred)) >= FEWEST_PROMPTS
