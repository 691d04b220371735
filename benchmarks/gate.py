"""What a gate promises that looks at every retrain of an agent: chains of 200 retrains, simulated with the real gate.

.venv/bin/python benchmarks/gate.py [--chains 2000] [--seed 1] [--small]

Prints tables as Markdown, with 95 % intervals of what was simulated: errors and power of the gate and of those it was chosen
over, of the gate by the number of held-out prompts, and how often "about N more" is right.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, median

import numpy as np
from gate_chains import (
    CHOSEN,
    E_VALUES,
    GATES,
    LOOKS,
    RIGHT_ANSWERS,
    Kind,
    World,
    ask_people,
    is_promoted_soon,
    promotes,
    run_chain,
)

from rl.base.measurements import wilson
from rl.evaluation.stats.bets import MOST_PICKS, picks_needed
from rl.evaluation.stats.budget import FIRST_STAKE, ONCE, Look, at_look
from rl.evaluation.stats.sample_size import prompts_for_gain

KINDS = (RIGHT_ANSWERS,)
WORSE, SCATTERED = World(mean=-0.01), World(scatter=0.02)
GAIN = 0.10
BEFORE = (0, 50, 150)
"""Looks since the last promotion, before the better version comes."""
WITHIN_FACTOR = 1.5
PICKS = (60, MOST_PICKS)
LATER = (5, 10, 75, 150)
"""Versions that people are asked about since the last promotion."""
PLANNED = re.compile(r"better by ([\d.]+) points.* would show with about ([\d,]+) more")
Rows = Iterator[Sequence[str]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="20 chains, to see that it runs")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    chains = 20 if options.small else options.chains
    for title, head, rows in tables(chains, rng):
        print(f"\n{title}\n\n{as_markdown(head, rows)}", flush=True)
    return 0


def tables(chains: int, rng: np.random.Generator) -> Iterator[tuple[str, Sequence[str], Rows]]:
    yield (
        f"200 held-out prompts, {chains:,} chains of 200 retrains each; ten points better: promoted within three retrains",
        (
            "gate",
            "evidence",
            "each a point worse: ever promotes",
            "scatter of 2 points: ends a point below",
            "mean gain then",
            *(f"ten better, after {looks} looks" for looks in BEFORE),
        ),
        rows_of_gates(chains, rng),
    )
    yield (
        "The gate by held-out prompts",
        (
            "prompts",
            "evidence",
            "each a point worse",
            "on the same prompts by half",
            "equal: ever promotes",
            "scatter around the start: ends a point below",
            *(f"ten better, after {looks}" for looks in BEFORE),
            "twenty better, first retrain",
        ),
        rows_of_sizes(chains, rng),
    )
    yield (
        f"People's picks: {chains:,} chains of {LOOKS} candidates, and picks that promote in four of five cases",
        (
            "share that prefers the new version",
            *(f"ever promotes, {picks} picks each" for picks in PICKS),
            *(f"picks of version {number}" for number in (1, *LATER)),
        ),
        rows_of_picks(chains, rng),
    )
    yield (
        "About N more: right within a factor of 1.5, where a number is given",
        (
            "prompts",
            "evidence",
            "look",
            "true gain",
            "number given",
            "planned: right",
            "scaled up: right",
            "promoted at the true number",
        ),
        rows_of_numbers(max(20, chains // 4), rng),
    )


def as_markdown(head: Sequence[str], rows: Rows) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# --- errors and power --------------------------------------------------------------------------------------------------


def rows_of_gates(chains: int, rng: np.random.Generator) -> Rows:
    for gate in (*GATES, E_VALUES):
        for kind in KINDS:
            ends = [run_chain(gate, kind, SCATTERED, 200, rng)[1] for _ in range(chains)]
            yield (
                gate,
                kind.name,
                ever_promotes(gate, kind, WORSE, 200, chains, rng),
                share(end < -0.01 for end in ends),
                f"{100 * fmean(ends):+.1f} points",
                *(better_promoted(gate, kind, 200, looks, chains, rng) for looks in BEFORE),
            )


def rows_of_sizes(chains: int, rng: np.random.Generator) -> Rows:
    followed = World(scatter=0.02, from_start=True)
    for prompts in (30, 60, 200, 400):
        for kind in KINDS:
            yield (
                str(prompts),
                kind.name,
                ever_promotes(CHOSEN, kind, WORSE, prompts, chains, rng),
                ever_promotes(CHOSEN, kind, World(mean=-0.01, shared=0.5), prompts, chains, rng),
                ever_promotes(CHOSEN, kind, World(), prompts, chains, rng),
                share(run_chain(CHOSEN, kind, followed, prompts, rng)[1] < -0.01 for _ in range(chains)),
                *(better_promoted(CHOSEN, kind, prompts, looks, chains, rng) for looks in BEFORE),
                share(is_promoted_soon(CHOSEN, kind, 2 * GAIN, prompts, 0, rng, 1) for _ in range(chains)),
            )


def rows_of_picks(chains: int, rng: np.random.Generator) -> Rows:
    """Later stakes are the medians of chains in which versions are equal."""
    tried = {(of, picks): [ask_people(of, picks, rng) for _ in range(chains)] for of in (0.49, 0.5) for picks in PICKS}
    whole = [stakes for was_promoted, stakes in tried[0.5, PICKS[0]] if not was_promoted]
    levels = [FIRST_STAKE, *(median(stakes[number - 1] for stakes in whole) for number in LATER)]
    for preferred in (0.49, 0.5, 0.65, 0.73, 0.8):
        equal = [tried.get((preferred, picks)) for picks in PICKS]
        ever = [share(was_promoted for was_promoted, _ in chains_of) if chains_of else "" for chains_of in equal]
        numbers = [picks_needed(preferred, level) or f"more than {MOST_PICKS}" for level in levels]
        yield (f"{preferred:.0%}", *ever, *(map(str, numbers) if preferred > 0.5 else [""] * len(numbers)))


def ever_promotes(gate: str, kind: Kind, world: World, prompts: int, chains: int, rng: np.random.Generator) -> str:
    return share(run_chain(gate, kind, world, prompts, rng)[0] > 0 for _ in range(chains))


def better_promoted(gate: str, kind: Kind, prompts: int, looks: int, chains: int, rng: np.random.Generator) -> str:
    return share(is_promoted_soon(gate, kind, GAIN, prompts, looks, rng) for _ in range(chains))


def share(outcomes: Iterator[bool]) -> str:
    """In percent, with its 95 % interval."""
    hits = list(map(bool, outcomes))
    if not hits:
        return "none"
    interval = wilson(sum(hits), len(hits))
    return f"{100 * interval.value:.1f} % ({100 * interval.low:.1f} to {100 * interval.high:.1f})"


# --- about N more ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    kind: Kind
    prompts: int
    look: Look
    gain: float
    """Of the version that is measured, in truth."""


def rows_of_numbers(cases: int, rng: np.random.Generator) -> Rows:
    for kind in KINDS:
        for prompts in (30, 60, 200):
            for setting in (Setting(kind, prompts, at_look(look), gain) for look in (1, 20) for gain in (0.0, 0.05)):
                yield row_of_numbers(setting, cases, rng)


def row_of_numbers(setting: Setting, cases: int, rng: np.random.Generator) -> Sequence[str]:
    planned, scaled, gains = [], [], set()
    undecided = 0
    for counts in setting.kind.draw(np.full(cases, setting.gain), setting.prompts, rng):
        verdict = setting.kind.ask_gate(tuple(map(int, counts)), setting.look)
        if verdict.decision != "undecided":
            continue
        undecided += 1
        scaled.append(is_scaled_right(setting, float(verdict.difference.value), np.array(counts)))
        if match := PLANNED.search(verdict.reason):
            gain, more = float(match[1]) / 100, int(match[2].replace(",", ""))
            gains.add(gain)
            planned.append(is_right(more, true_prompts(setting, gain) - setting.prompts))
    powers = [power(setting, gain, cases, rng) for gain in sorted(gains)]
    return (
        str(setting.prompts),
        setting.kind.name,
        str(setting.look.number),
        f"{100 * setting.gain:g} points",
        f"{100 * len(planned) / undecided:.0f} %" if undecided else "none undecided",
        share(iter(planned)),
        share(iter(scaled)),
        ", ".join(f"{100 * found:.0f} %" for found in powers),
    )


def is_right(estimate: float, truth: float) -> bool:
    return truth > 0 and 1 / WITHIN_FACTOR <= estimate / truth <= WITHIN_FACTOR


def true_prompts(setting: Setting, gain: float) -> int:
    """With which the gate promotes at the next look, in 80 % of cases, what is truly ``gain`` better."""
    return prompts_for_gain(setting.kind.variance(gain), gain, setting.look.next_level)


def is_scaled_right(setting: Setting, difference: float, counts: np.ndarray) -> bool:
    """As the number was made before: the prompts at which the interval leaves zero, if the difference stays as observed.
    For a version that is truly equal no number is right."""
    if not difference or not setting.gain:
        return False
    values = np.array(setting.kind.values)
    variance = float(counts @ values**2 / counts.sum() - difference**2)
    critical = NormalDist().inv_cdf(1 - ONCE.level)
    more = (critical / difference) ** 2 * variance - setting.prompts
    return is_right(
        more, prompts_for_gain(setting.kind.variance(setting.gain), setting.gain, ONCE.level) - setting.prompts
    )


def power(setting: Setting, gain: float, cases: int, rng: np.random.Generator) -> float:
    """Of the real gate at the true number: what it ought to be is 80 %."""
    look = Look(setting.look.next_level, setting.look.next_level)
    drawn = setting.kind.draw(np.full(cases, gain), true_prompts(setting, gain), rng)
    return fmean(promotes(setting.kind, tuple(map(int, counts)), look) for counts in drawn)


if __name__ == "__main__":
    sys.exit(main())
