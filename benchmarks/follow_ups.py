"""How far the next message of a user tells whether the answer was good: a Markdown table.

    DATA_DIR=data .venv/bin/python benchmarks/follow_ups.py dataset/SGD.txt dataset/MWOZ.txt dataset/ReDial.txt

The files are those of USS (https://github.com/sunnweiwei/user-satisfaction-simulation): dialogues with assistants in which
people rated, turn by turn, how satisfied the user is, 1 to 5. A turn whose mean is not 3 is a label of the answer before it.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

from installation import set_up

MOST: Final = 400
"""Rated turns of a file, of the first dialogues."""
SURE: Final = 0.8
TOKENS: Final = 512


def main(files: Sequence[str]) -> None:
    set_up()
    from rl.auto_labels.hearing import balanced_accuracy, cross_hear
    from rl.base.records import silent
    from rl.judge.features import Reader
    from rl.judge.labels import Opinion
    from rl.lm.base_models import resolve

    reader = Reader(resolve("smollm2", silent), max_length=TOKENS, report=silent)
    print(f"| dialogues | rated turns | by the answer | by the next message | at {SURE} or surer |")
    print("|---|---|---|---|---|")
    for file in map(Path, files):
        turns = list(rated_turns(file))[:MOST]
        opinions = [Opinion(row, None, float(good), prompt=dialogue) for row, (_, good, dialogue) in enumerate(turns)]
        cells = []
        for seen in ("answered", "turned_round"):
            features = reader.features([getattr(message, seen) for message, *_ in turns], silent)
            measured = cross_hear(features, opinions)
            accuracy = balanced_accuracy(measured)
            cells.append(f"{accuracy.value:.0%} ({accuracy.low:.0%} to {accuracy.high:.0%})")
        sure = [(p > 0.5) == good for p, good in measured if max(p, 1 - p) >= SURE]
        print(f"| {file.stem} | {len(turns)} | {' | '.join(cells)} | {sum(sure)} of {len(sure)} right |", flush=True)


def rated_turns(file: Path) -> Iterator[tuple["Turn", bool, str]]:
    """The turn, whether the user is satisfied, and the dialogue."""
    for number, dialogue in enumerate(file.read_text(encoding="utf-8").split("\n\n")):
        lines = [line.split("\t") for line in dialogue.splitlines() if line.count("\t") >= 3]
        for (asker, question, *_), (bot, answer, *_), (user, text, _, ratings, *_) in zip(
            lines, lines[1:], lines[2:], strict=False
        ):
            if (asker, bot, user) == ("USER", "SYSTEM", "USER") and text != "OVERALL" and ratings:
                mean = fmean(map(float, ratings.split(",")))
                if mean != 3:
                    yield Turn(question, answer, text), mean > 3, f"{file.stem} {number}"


class Turn:
    def __init__(self, question: str, answer: str, text: str) -> None:
        from rl.auto_labels.follow_ups import NextMessage

        ids = (None, None)
        self.turned_round = NextMessage(*ids, question, answer, text, "").turned_round  # type: ignore[arg-type]
        self.answered = ([{"role": "user", "content": question}], answer)


if __name__ == "__main__":
    main(sys.argv[1:])
