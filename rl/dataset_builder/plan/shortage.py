"""What is missing, in words."""

from collections import Counter
from collections.abc import Iterable

from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.read.groups import PromptGroup, Tally
from rl.models import Agent

_ADVICE = {
    "liked": "only liked answers: rate a second answer of them down",
    "disliked": "only disliked answers: rate another answer of them up",
    "mixed": "liked and disliked answers that make no pair: the reasons for leaving them out are below",
    "empty": "only empty answers: collect answers with text",
    "undecided": "no answer that more raters like than not, or the reverse: rate their answers again",
}


class Shortage:
    """Learns, prompt by prompt, what is missing for pairs, to say what to do about it."""

    def __init__(self, options: DataOptions) -> None:
        self._options = options
        self._without_pairs: Counter[str] = Counter()
        self._one_rating_gives: Counter[int] = Counter()
        """Pairs that one opposite rating would make, to the number of prompts of which that is true."""
        self._labelled: Counter[str] = Counter()

    def saw(self, group: PromptGroup, pairs: int) -> None:
        with_text = [answer for answer in group.answers if answer.response.strip()]
        verdicts = [answer.verdict for answer in with_text]
        liked, disliked = verdicts.count("up"), verdicts.count("down")
        self._labelled["liked"] += liked
        self._labelled["disliked"] += disliked
        if pairs:
            return
        if liked and disliked:
            self._without_pairs["mixed"] += 1
        elif liked or disliked:
            self._without_pairs["liked" if liked else "disliked"] += 1
            self._one_rating_gives[min(liked + disliked, self._options.max_pairs_per_question)] += 1
        else:
            self._without_pairs["undecided" if with_text or not group.answers else "empty"] += 1

    def problem(self, train: int, held_out: int, tally: Tally) -> str:
        """Why these numbers of pairs are too few to train on; empty when they are enough."""
        if train + held_out < self._options.min_samples:
            return self._too_few(train + held_out, tally)
        if not train:
            return (
                f"all {plural(held_out, 'pair')} of {plural(tally.prompts, 'prompt')} are held out for testing, none is "
                "left to train on: rate answers to other prompts, or lower the held-out share"
            )
        return ""

    def _too_few(self, pairs: int, tally: Tally) -> str:
        wanted = self._options.min_samples
        sentences = [
            f"{plural(tally.read, 'rating')} of {plural(tally.prompts_read, 'prompt')} "
            f"{'gives' if tally.read == 1 else 'give'} {plural(pairs, 'pair')}, and {wanted} are needed: "
            f"about {plural(self._missing(wanted - pairs), 'more rating')}"
        ]
        for kind, advice in _ADVICE.items():
            if number := self._without_pairs[kind]:
                sentences.append(f"{plural(number, 'prompt')} {'has' if number == 1 else 'have'} {advice}")
        if not tally.read:
            sentences.append("rate two answers to one prompt, one up and one down, to make the first pair")
        labelled = self._labelled.total()
        if labelled >= wanted and all(self._labelled.values()):
            sentences.append(
                f"{plural(labelled, 'rated answer')} need no pair in KTO: 'manage.py training_plan' compares methods"
            )
        if tally.skipped:
            sentences.append(f"left out: {format_reasons(tally.skipped.most_common(5))}")
        return ". ".join(sentences)

    def _missing(self, pairs: int) -> int:
        """Ratings: one for each one-sided prompt, the most fruitful first, then two for each pair of a new prompt."""
        ratings = 0
        for gain, prompts in sorted(self._one_rating_gives.items(), reverse=True):
            used = min(prompts, -(-pairs // gain))
            ratings, pairs = ratings + used, pairs - used * gain
            if pairs <= 0:
                return ratings
        return ratings + 2 * pairs


def no_answers(agent: Agent, options: DataOptions) -> str:
    """What is to be said of an agent without any; empty where it has some."""
    if agent.traces.exists():
        return ""
    return (
        f"{agent.name} has no answers yet, and {plural(options.min_samples, 'row')} to train on are needed: send or import "
        "answers"
    )


def plural(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def format_reasons(reasons: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{number:,} {reason}" for reason, number in reasons)
