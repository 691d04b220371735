"""MPO: pairs where there are two answers to compare, and every other answer that is known to be good or bad alone.

SFT learns from the same, of which the accepted answers are imitated; the others are there to be measured by."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from rl.base.records import JudgedAnswer, PreferencePair, Vote
from rl.data_formatter.labelled import pair_row, single_row
from rl.data_formatter.opinions import ONLY_DISLIKED, ONLY_LIKED
from rl.data_formatter.runs import answer_key
from rl.dataset_builder.accepted_answers import AcceptedAnswers
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.read.follow_ups import read_reviews
from rl.dataset_builder.read.groups import BOTH_BAD, DIRECT, OUTCOME, PromptGroup, PromptRows, Source, Tally
from rl.dataset_builder.rows.judged import LabelledRows
from rl.dataset_builder.rows.pairs import PairRows
from rl.dataset_builder.rows.reward_model import PairsMade
from rl.models import Agent

_LEARNED_ALONE = (ONLY_LIKED, ONLY_DISLIKED, BOTH_BAD, OUTCOME)
"""Why feedback makes no pair, which loses nothing where answers train alone."""


class MixedRows:
    """First all pairs, then what is in none of them. From files, which hold nothing but pairs, pairs alone."""

    hears_follow_ups = True
    """Its rows have weights, so what users wrote next may be learned from a little."""

    def __init__(self, agent: Agent, source: Source, options: DataOptions, tally: Tally) -> None:
        self._agent, self._options, self._tally = agent, options, tally
        self._accepted = AcceptedAnswers()
        self._of_pairs, self._of_singles = Tally(), Tally()
        self._made = PairsMade()
        self._pairs = _Pairs(agent, source, options, self._of_pairs)
        arguments = (agent, source, options, self._of_singles)
        hear = read_reviews(agent).weight if self.hears_follow_ups else 0.0
        singles = partial(_Singles, keep=lambda answer: not self._made.has(answer), follow_up_weight=hear)
        self._singles = singles(*arguments) if source.has_ids else None

    def prompts(self) -> Iterator[PromptRows]:
        singles = 0
        yield from map(self._see, map(self._made.note, self._pairs.prompts()))
        for of_prompt in self._singles.prompts() if self._singles else ():
            singles += len(of_prompt.rows)
            yield self._see(of_prompt)
        self._take_stock({"pair_rows": self._made.count, "single_rows": singles})

    def problem(self, train: int, held_out: int) -> str:
        """A pair tells good from bad, so with one the labels may all be of one kind; they may all be good where answers are
        right or wrong, which are imitated."""
        least = self._options.min_samples
        if train and train + held_out >= least:
            are_right = self._accepted.kind(self._agent.answer_kind).has_right_answers
            if self._made.count or (are_right and self._accepted.count >= least):
                return ""
        return (self._singles or self._pairs).problem(train, held_out)

    def _see(self, of_prompt: PromptRows) -> PromptRows:
        for row in of_prompt.rows:
            self._accepted.saw(row)
        return of_prompt

    def _take_stock(self, rows: dict[str, int]) -> None:
        """What the first pass read counts as read: what arrives between the two waits for the next run."""
        tally, pairs, singles = self._tally, self._of_pairs, self._of_singles
        tally.read, tally.ids, tally.usable = pairs.read, pairs.ids, pairs.usable + singles.usable
        tally.prompts_read, tally.disputed = max(pairs.prompts_read, singles.prompts_read), pairs.disputed
        tally.prompts = pairs.prompts + singles.prompts
        no_loss = _LEARNED_ALONE if self._singles else ()
        skipped = [(reason, number) for reason, number in pairs.skipped.items() if reason not in no_loss]
        skipped += [pair for pair in singles.skipped.items() if pair[0] not in (DIRECT, *pairs.skipped)]
        tally.skipped.update(dict(skipped))
        tally.taken.update(pairs.taken)
        tally.details.update(rows)


class _Pairs(PairRows):
    def _row(self, pair: PreferencePair, group: PromptGroup) -> dict[str, Any]:
        return pair_row(pair, list(votes_on(pair, group)))


def votes_on(pair: PreferencePair, group: PromptGroup) -> Iterator[Vote]:
    """Whoever preferred one of the two answers, or rated either."""
    chosen = answer_key(pair.chosen, pair.chosen_steps or ())
    rejected = answer_key(pair.rejected, pair.rejected_steps or ())
    for answer in group.answers:
        if (key := answer_key(answer.response, answer.steps)) in (chosen, rejected):
            is_chosen, about = key == chosen, "chosen" if key == chosen else "rejected"
            yield from (Vote(vote.rater, vote.agrees == is_chosen, about) for vote in answer.votes if vote.rater)
    for direct in group.direct:
        preferred = answer_key(direct.chosen, direct.chosen_steps)
        if direct.rater and {preferred, answer_key(direct.rejected, direct.rejected_steps)} == {chosen, rejected}:
            yield Vote(direct.rater, preferred == chosen)


class _Singles(LabelledRows):
    method = "mpo"

    def _row(self, answer: JudgedAnswer) -> dict[str, Any] | None:
        return single_row(answer, self._rule, self._tally.skipped)

    def _is_good(self, row: dict[str, Any]) -> bool:
        return row["chosen"] is not None


class AcceptedRows(MixedRows):
    """Good answers alone are enough, and people have to say that they are."""

    hears_follow_ups = False

    def problem(self, train: int, held_out: int) -> str:  # noqa: ARG002  as others of its kind
        least, count = self._options.min_samples, self._accepted.count
        if train and count >= least:
            return ""
        return (
            f"{count} accepted answers, and {least} are needed: choose, edit or like answers, "
            f"or ask for fewer with --min-samples"
        )
