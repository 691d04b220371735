"""The same from files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from rl.base.records import RatedAnswer
from rl.collect.command_center import Entry, Rating, Rejected, entry_to_answer, read_entries, read_ratings
from rl.dataset_builder.read.groups import PromptGroup, Tally

DAMAGED_ENTRY = "damaged entry"
DAMAGED_RATING = "damaged rating"
NO_ENTRY = "rating of an entry that is not in the file"
OTHER_QUESTION = "question id that stands for two questions"


class FileSource:
    """Command Center's files, read without the database. The rated entries, not the others, are held in memory.

    A rating inside an entry counts where the ratings file has none for it.
    """

    name = "file"
    has_ids = False

    def __init__(self, data_path: str | Path, ratings_path: str | Path | None = None) -> None:
        self._data = Path(data_path)
        self._ratings = Path(ratings_path) if ratings_path else None

    def scenarios(self) -> tuple[str, ...]:
        """Those of all entries, the unrated ones included."""
        return tuple(sorted({entry.scenario for entry in read_entries(self._data) if isinstance(entry, Entry)}))

    def groups(self, tally: Tally) -> Iterator[PromptGroup]:
        answers = self._answers(self._verdicts_by_entry(tally), tally)
        for key in sorted(answers):
            yield PromptGroup(key, answers.pop(key))

    def _verdicts_by_entry(self, tally: Tally) -> dict[str, bool]:
        """Entry id to whether it was rated up; the last rating of an entry counts."""
        verdicts: dict[str, bool] = {}
        for rating in read_ratings(self._ratings) if self._ratings else ():
            tally.saw()
            if isinstance(rating, Rejected):
                tally.skipped[DAMAGED_RATING] += 1
            else:
                verdicts[rating.entry_id] = rating.up
        return verdicts

    def _answers(self, rated: dict[str, bool], tally: Tally) -> dict[str, list[RatedAnswer]]:
        answers: defaultdict[str, list[RatedAnswer]] = defaultdict(list)
        questions: dict[str, str] = {}
        for number, entry in enumerate(read_entries(self._data)):
            if isinstance(entry, Rejected):
                tally.skipped[DAMAGED_ENTRY] += 1
                continue
            up = self._verdict(entry, rated, tally)
            if up is None:
                continue
            if questions.setdefault(entry.question_id, entry.question) != entry.question:
                tally.skipped[OTHER_QUESTION] += 1
                continue
            answers[entry.question_id].append(entry_to_answer(entry, int(up), int(not up), (number,)))
        if rated:
            tally.skipped[NO_ENTRY] += len(rated)
        return dict(answers)

    @staticmethod
    def _verdict(entry: Entry, rated: dict[str, bool], tally: Tally) -> bool | None:
        """None for an entry that nobody rated."""
        if entry.entry_id in rated:
            return rated.pop(entry.entry_id)
        if isinstance(entry.rating, Rating):
            tally.saw()
            return entry.rating.up
        return None
