"""The same from files."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from rl.base.records import RatedAnswer
from rl.collect.command_center import Entry, Rating, Rejected, entry_to_answer, read_entries, read_ratings
from rl.dataset_builder.read.groups import PromptGroup, Tally, by_scenario

DAMAGED_ENTRY = "damaged entry"
DAMAGED_RATING = "damaged rating"
NO_ENTRY = "rating of an entry that is not in the file"
OTHER_QUESTION = "question id that stands for two questions"
Verdicts = dict[str | None, Rating]
"""Device to its rating of one entry."""


class FileSource:
    """Command Center's files, read without the database. The rated entries, not the others, are held in memory. A
    rating inside an entry counts where the ratings file has none for it. Of each device the latest rating counts."""

    name = "file"
    has_ids = False

    def __init__(self, data_path: str | Path, ratings_path: str | Path | None = None) -> None:
        self._data = Path(data_path)
        self._ratings = Path(ratings_path) if ratings_path else None

    def fixtures(self) -> dict[str, tuple[str, ...]]:
        """Those of all entries, the unrated ones included."""
        entries = (entry for entry in read_entries(self._data) if isinstance(entry, Entry))
        return by_scenario((entry.scenario, entry.fixture) for entry in entries)

    def groups(self, tally: Tally) -> Iterator[PromptGroup]:
        answers = self._answers(self._verdicts_by_entry(tally), tally)
        for key in sorted(answers):
            yield PromptGroup(key, answers.pop(key))

    def _verdicts_by_entry(self, tally: Tally) -> dict[str, Verdicts]:
        """Where a device has several ratings with the same time, or none, the last one in the file counts."""
        verdicts: defaultdict[str, Verdicts] = defaultdict(dict)
        for rating in read_ratings(self._ratings) if self._ratings else ():
            tally.saw()
            if isinstance(rating, Rejected):
                tally.skipped[DAMAGED_RATING] += 1
                continue
            earlier = verdicts[rating.entry_id].get(rating.device)
            if earlier is None or _time(rating) >= _time(earlier):
                verdicts[rating.entry_id][rating.device] = rating
        return dict(verdicts)

    def _answers(self, rated: dict[str, Verdicts], tally: Tally) -> dict[str, list[RatedAnswer]]:
        answers: defaultdict[str, list[RatedAnswer]] = defaultdict(list)
        questions: dict[str, str] = {}
        ratings_read = 0
        for entry in read_entries(self._data):
            if isinstance(entry, Rejected):
                tally.skipped[DAMAGED_ENTRY] += 1
                continue
            thumbs = self._thumbs(entry, rated, tally)
            if not thumbs:
                continue
            if questions.setdefault(entry.question_id, entry.question) != entry.question:
                tally.skipped[OTHER_QUESTION] += 1
                continue
            ids = range(ratings_read, ratings_read + len(thumbs))
            ratings_read += len(thumbs)
            answers[entry.question_id].append(entry_to_answer(entry, sum(thumbs), len(thumbs) - sum(thumbs), ids))
        if rated:
            tally.skipped[NO_ENTRY] += sum(map(len, rated.values()))
        return dict(answers)

    @staticmethod
    def _thumbs(entry: Entry, rated: dict[str, Verdicts], tally: Tally) -> list[bool]:
        """Whether each device rated it up; empty for an entry that nobody rated."""
        if entry.entry_id in rated:
            return [rating.up for rating in rated.pop(entry.entry_id).values()]
        if isinstance(entry.rating, Rating):
            tally.saw()
            return [entry.rating.up]
        return []


def _time(rating: Rating) -> datetime:
    return rating.rated_at or datetime.min.replace(tzinfo=UTC)
