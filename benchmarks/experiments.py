"""What looking early costs: false verdicts of the always-valid intervals, and of a t-test that is looked at as often.

.venv/bin/python benchmarks/experiments.py [--experiments 200] [--every 5] [--seed 1]

Users come in one by one and thumb up or down; after every few of them somebody looks, and the first verdict ends the
experiment. The verdicts are those of the site: rl/serving/experiments/verdicts.py.
"""

import argparse
import math
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist, median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rl.serving.experiments.sequential import MetricTally, predicted_sample
from rl.serving.experiments.verdicts import Evidence, Question, decide

CONTROL, CHALLENGER = 0, 1
QUESTION = Question(names={CONTROL: "base", CHALLENGER: "v286"}, control=CONTROL, metric="thumbs_up", min_samples=50)
LEVEL = 1 - QUESTION.confidence
POWER = 0.8
EFFECT = QUESTION.minimum_effect
BASE_RATE = 0.5


@dataclass(frozen=True, slots=True)
class Outcome:
    verdict: str
    users: int
    """An arm, when the site gave its verdict."""
    naive: str
    naive_users: int
    """When the t-test that is looked at every time gave its own; the last look where it gave none."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=200)
    parser.add_argument("--every", type=int, default=5, help="users an arm between two looks")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    size = predict_users()
    equal = [run(BASE_RATE, options.every, rng) for _ in range(options.experiments)]
    better = [run(BASE_RATE + EFFECT, options.every, rng) for _ in range(options.experiments)]
    false, naive_false = false_share(equal), naive_share(equal)
    found_rate, naive_rate = found_share(better, size), naive_share(better)
    rows = [
        ("", "always-valid", "a t-test, looked at as often"),
        ("---", "---", "---"),
        ("a false verdict between equal arms", f"{false:.1%}", f"{naive_false:.1%}"),
        (f"the difference found within the predicted {size} users an arm", f"{found_rate:.1%}", f"{naive_rate:.1%}"),
        ("median users an arm between equal arms", str(users(equal)), ""),
        ("median users an arm until it is found", str(users(better)), str(naive_users(better))),
        ("users an arm that a t-test looked at once needs", "", str(fixed_sample())),
    ]
    print(
        f"{options.experiments} experiments each, a look after every {options.every} users an arm, seed {options.seed}\n"
    )
    for row in rows:
        print(f"| {' | '.join(row)} |")
    slack = 2 * math.sqrt(LEVEL * (1 - LEVEL) / options.experiments)  # of the simulation
    return 0 if false <= LEVEL + slack and found_rate >= POWER else 1


def predict_users() -> int:
    """Users an arm, of the site's own prediction."""
    rates = (BASE_RATE, BASE_RATE + EFFECT)
    variance = sum(rate * (1 - rate) for rate in rates) / 2
    return predicted_sample(EFFECT, variance, QUESTION.confidence, POWER)


def run(rate: float, every: int, rng: random.Random) -> Outcome:
    """To the verdict of the site. The t-test is asked at the same looks, up to the predicted sample, and goes on alone
    there when the site is ready sooner."""
    tally, counts, size = MetricTally(), [0, 0], predict_users()
    verdict, users_needed, naive, naive_users_needed = "", 0, "", 0
    user = 0
    while not verdict or (not naive and user < size):
        user += 1
        for arm, chance in ((CONTROL, BASE_RATE), (CHALLENGER, rate)):
            value = float(rng.random() < chance)
            counts[arm] += int(value)
            tally.add(arm, user, value)
        if user % every:
            continue
        if not verdict:
            verdict, users_needed = decide(QUESTION, Evidence(tally)).verdict, user
        if not naive and QUESTION.min_samples <= user <= size:
            naive, naive_users_needed = t_test(*counts, user), user
    return Outcome(verdict, users_needed, naive, naive_users_needed)


def t_test(control: int, challenger: int, n: int) -> str:
    """The usual two-sided test at the same level, as if this were the only look; at these sizes t is normal."""
    rates = control / n, challenger / n
    error = math.sqrt(sum(rate * (1 - rate) for rate in rates) / (n - 1))
    if not error or abs(rates[1] - rates[0]) <= NormalDist().inv_cdf(1 - LEVEL / 2) * error:
        return ""
    return "promote" if rates[1] > rates[0] else "roll_back"


def fixed_sample() -> int:
    variance = sum(rate * (1 - rate) for rate in (BASE_RATE, BASE_RATE + EFFECT))
    z = NormalDist().inv_cdf(1 - LEVEL / 2) + NormalDist().inv_cdf(POWER)
    return math.ceil(variance * z * z / EFFECT**2)


def false_share(outcomes: list[Outcome]) -> float:
    return sum(outcome.verdict in ("promote", "roll_back") for outcome in outcomes) / len(outcomes)


def found_share(outcomes: list[Outcome], size: int) -> float:
    return sum(outcome.verdict == "promote" and outcome.users <= size for outcome in outcomes) / len(outcomes)


def naive_share(outcomes: list[Outcome]) -> float:
    return sum(bool(outcome.naive) for outcome in outcomes) / len(outcomes)


def users(outcomes: list[Outcome]) -> int:
    return round(median(outcome.users for outcome in outcomes))


def naive_users(outcomes: list[Outcome]) -> int:
    return round(median(outcome.naive_users for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
