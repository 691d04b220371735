"""How often a version is falsely called worse for a group, and how often rightly.

.venv/bin/python benchmarks/groups.py [--draws 2000] [--groups 6] [--seed 1]

Six groups of some prompts. Equal versions: half of the answers are preferred, or 70 % of both versions' are right. Worse for
the first group: 20 % are preferred there, or 40 % right. The judge is taken to be right. And experiments of two arms with so
many users of each group, of whom half thumb up, and 20 % of those in the first group whose version is worse; somebody looks
after each round of users of all groups. Prints tables as Markdown.
"""

import argparse
import os
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

django.setup()

from rl.collect.groups import Group  # noqa: E402  Django first
from rl.evaluation.gate import RIGHT, interval_of_mean  # noqa: E402
from rl.evaluation.groups import ERROR, PromptEvidence  # noqa: E402
from rl.evaluation.measures.fresh import forecast  # noqa: E402
from rl.evaluation.stats import bets  # noqa: E402
from rl.serving.experiments.groups import GroupTallies  # noqa: E402
from rl.serving.experiments.metrics import Observation  # noqa: E402
from rl.serving.experiments.verdicts import Question  # noqa: E402

PROMPTS = (12, 24, 48)
USERS = (50, 100, 200)
LOSS = 0.3
Draw = Callable[[random.Random, float], float]


def prefer(rng: random.Random, loss: float) -> float:
    return float(rng.random() < 0.5 - loss)


def answer_rightly(rng: random.Random, loss: float) -> float:
    """The change from the version in use to the new one, which answer independently of each other."""
    return float(rng.random() < 0.7 - loss) - float(rng.random() < 0.7)


KINDS: dict[str, tuple[Draw, PromptEvidence]] = {
    "fresh answers, by a judge": (prefer, PromptEvidence({}, forecast, 0.0, "")),
    "people's picks": (prefer, PromptEvidence({}, bets.interval, 0.0, "")),
    "right answers": (
        answer_rightly,
        PromptEvidence({}, lambda values, error: interval_of_mean(values, 1 - error), 0.0, "", RIGHT.write, 0.0, 0.01),
    ),
}


def is_harmed(kind: str, rng: random.Random, prompts: int, groups: int, loss: float) -> bool:
    draw, evidence = KINDS[kind]
    values = {str(number): draw(rng, loss) for number in range(prompts)}
    return bool(replace(evidence, values=values).describe(Group("topic", ""), list(values), ERROR / groups)["worse"])


def is_called_worse(rng: random.Random, users: int, groups: int, loss: float) -> bool:
    """At any look at an experiment; with a loss, for its first group."""
    question = Question(names={0: "v1", 1: "v2"}, control=0, metric="thumbs_up")
    tallies = GroupTallies(question, keys=1)
    for user in range(users):
        for group in range(groups):
            for arm in question.names:
                up = float(rng.random() < 0.5 - (loss if arm and not group else 0.0))
                tallies.note(Observation(arm, user, up, 0, [Group("topic", str(group))]))
        if any(look.worse and (not loss or look.group.value == "0") for look in tallies.read()):
            return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--groups", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print("| evidence | prompts of a group | falsely called worse, for any | 30 points worse for one: seen |")
    print("|---|---|---|---|")
    for kind in KINDS:
        for prompts in PROMPTS:
            rng = random.Random(options.seed)
            some = [
                any(is_harmed(kind, rng, prompts, options.groups, 0.0) for _ in range(options.groups))
                for _ in range(options.draws)
            ]
            seen = [is_harmed(kind, rng, prompts, options.groups, LOSS) for _ in range(options.draws)]
            false, right = (f"{100 * sum(of) / options.draws:.1f} %" for of in (some, seen))
            print(f"| {kind} | {prompts} | {false} | {right} |", flush=True)
    for users in USERS:
        rng, draws = random.Random(options.seed), options.draws // 4
        false, right = (
            f"{100 * sum(is_called_worse(rng, users, options.groups, loss) for _ in range(draws)) / draws:.1f} %"
            for loss in (0.0, LOSS)
        )
        print(f"| experiment, users an arm | {users} | {false} | {right} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
