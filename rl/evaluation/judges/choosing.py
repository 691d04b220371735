"""The judge of an agent: its own, which learns from its users' labels, or a model on a server, by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rl.base.errors import BadFile, JudgeFailed, UsageError
from rl.base.leaves import leaf
from rl.base.records import Report
from rl.data_formatter.opinions import stable_hash
from rl.evaluation.judges.duels import Duel, Judge, Judged
from rl.evaluation.judges.servers import OWN, JudgeServer, find_server
from rl.judge.labels import text_of

JUDGING: Final = "rl.evaluation.torch.judging"
ASKING: Final = "rl.evaluation.judges.asking"
OWN_JUDGE: Final = "a judge that has learned from its users' ratings"
MOST_CHECKS: Final = 100
"""How many of people's comparisons a model on a server is checked on: each is two requests."""
Row = Mapping[str, Any]


def choose(name: str, base_model: str, max_length: int, report: Report) -> Judge:
    """``name``: empty or OWN for the agent's own, which reads answers by this base model, up to so many tokens. Raises
    JudgeFailed for a name that is not registered, and for a JUDGES_FILE that cannot be read."""
    if name and name != OWN:
        try:
            return judge_on_server(find_server(name), report)
        except (UsageError, BadFile) as error:
            raise JudgeFailed(str(error)) from error

    def compare(labelled: Sequence[Row], contrasts: Sequence[Row], duels: Sequence[Duel]) -> Judged | None:
        judged: Judged | None = leaf(JUDGING).judge(
            base_model, labelled, contrasts, duels, max_length=max_length, report=report
        )
        return judged

    return Judge(OWN_JUDGE, compare)


def judge_on_server(server: JudgeServer, report: Report) -> Judge:
    """It learns nothing, and is checked on one contrast of each prompt. Answers to different prompts it cannot compare."""

    def compare(labelled: Sequence[Row], contrasts: Sequence[Row], duels: Sequence[Duel]) -> Judged:
        checked = _sample(contrasts)
        known = [
            Duel(row["prompt"], row["prompt_key"], text_of(row["chosen"]), text_of(row["rejected"])) for row in checked
        ]
        shares = leaf(ASKING).compare(server, [*known, *duels], report)
        checks = [(duel.prompt_key, [share]) for duel, share in zip(known, shares, strict=False)]
        return Judged(checks, [[share] for share in shares[len(known) :]], opinions=0)

    return Judge(f"{server.name} ({server.model})", compare)


def _sample(contrasts: Sequence[Row]) -> list[Row]:
    """By a hash, so that it has nothing to do with the order of arrival."""
    by_prompt = {row["prompt_key"]: row for row in reversed(contrasts) if "rejected_prompt" not in row}
    keys = sorted(by_prompt, key=lambda key: stable_hash("check " + key))
    return [by_prompt[key] for key in keys[:MOST_CHECKS]]
