"""Messages to Wrenfield Cycles, an invented shop that sells bicycles by post: to which of its six teams does each belong?

All 300 were made up for this demo. A seed draws 40 that simulated colleagues correct, which is what the model learns from,
and 60 others that nobody corrects, on which it is tested; the other 200 are left for whoever tries it."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

MESSAGES: Final = Path(__file__).parent / "mailroom_messages.jsonl"
TEAMS: Final = ("delivery", "billing", "repairs", "returns", "sales", "account")
CORRECTED: Final = 40
UNSEEN: Final = 60
SLIPS: Final = 0.05
"""Share of corrections that name a team at random which is not the right one."""
COLLEAGUES: Final = 5


@dataclass(frozen=True, slots=True)
class MailroomMessage:
    text: str
    team: str
    also: str = ""
    """Another team that could take it."""

    @property
    def teams(self) -> tuple[str, ...]:
        """Those that are right."""
        return tuple(filter(None, (self.team, self.also)))


class MailroomParts(NamedTuple):
    corrected: list[MailroomMessage]
    unseen: list[MailroomMessage]
    others: list[MailroomMessage]


def read_messages() -> list[MailroomMessage]:
    rows = [json.loads(line) for line in MESSAGES.read_text(encoding="utf-8").splitlines()]
    return [MailroomMessage(row["message"], row["team"], row.get("also", "")) for row in rows]


def draw_parts(seed: int = 0) -> MailroomParts:
    """The same seed draws the same parts. Each has about as many messages of every team."""
    rng = random.Random(seed)  # noqa: S311 - a simulation, no secret
    of_teams: dict[str, list[MailroomMessage]] = {team: [] for team in TEAMS}
    for message in read_messages():
        of_teams[message.team].append(message)
    shuffled = (rng.sample(of_team, len(of_team)) for of_team in of_teams.values())
    drawn = [message for in_turn in zip(*shuffled, strict=True) for message in in_turn]
    return MailroomParts(drawn[:CORRECTED], drawn[CORRECTED : CORRECTED + UNSEEN], drawn[CORRECTED + UNSEEN :])


def name_teams(messages: Sequence[MailroomMessage], seed: int = 0) -> list[tuple[str, str]]:
    """Which colleague answers for each message, and the team that he names, some wrongly."""
    rng = random.Random(seed)  # noqa: S311 - a simulation, no secret
    slips = set(rng.sample(range(len(messages)), round(SLIPS * len(messages))))
    named = []
    for number, message in enumerate(messages):
        wrong = [team for team in TEAMS if team not in message.teams]
        team = rng.choice(wrong) if number in slips else message.team
        named.append((f"simulated-{rng.randint(1, COLLEAGUES)}", team))
    return named
