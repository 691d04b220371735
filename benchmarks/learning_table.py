"""The benchmark's figures as Markdown."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, Final

ARMS: Final = ("trl-dpo", "trl-dpo-3e-4", "trl-kto", "ours", "mpo-pairs", "fresh", "best-of-4")
BAR: Final = 0.65
Line = Mapping[str, Any]


def print_tables(lines: Sequence[Line]) -> None:
    for bad in sorted({line["bad"] for line in lines}):
        rows = [line for line in lines if line["bad"] == bad]
        print(f"\n{bad:.0%} of the raters say the opposite\n" if bad else "\nHonest raters\n")
        if earlier := sum("honest" not in line for line in rows):
            print(f"{earlier} of {len(rows)} runs were measured while a loop could win; the others are honest.\n")
        _print_win_rates(rows)
        print()
        _print_side_effects(rows)


def _print_win_rates(lines: Sequence[Line]) -> None:
    """Of greedy answers, which are what people get: mean over tastes and seeds, with the deviation and how many there are;
    and labels for BAR on the line through them."""
    budgets = sorted({line["budget"] for line in lines})
    print("| way | " + " | ".join(f"{budget} labels" for budget in budgets) + f" | labels for {BAR:.0%} |")
    print("|---" * (len(budgets) + 2) + "|")
    for arm in ARMS:
        values = {budget: [line["greedy"] for line in _of(lines, arm, budget)] for budget in budgets}
        if any(values.values()):
            cells = [_spread(values[budget]) for budget in budgets]
            print(f"| {arm} | " + " | ".join(cells) + f" | {_labels_for_bar(values)} |")


def _of(lines: Sequence[Line], arm: str, budget: int) -> list[Line]:
    return [line for line in lines if (line["arm"], line["budget"]) == (arm, budget)]


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    deviation = f" ± {100 * stdev(values):.0f}" if len(values) > 1 else ""
    return f"{100 * fmean(values):.0f}{deviation} ({len(values)})"


def _labels_for_bar(values: Mapping[int, Sequence[float]]) -> str:
    known = [(budget, fmean(rates)) for budget, rates in sorted(values.items()) if rates]
    for (few, low), (many, high) in zip(known, known[1:], strict=False):
        if low < BAR <= high:
            return f"{few + (many - few) * (BAR - low) / (high - low):.0f}"
    return f"at most {known[0][0]}" if known[0][1] >= BAR else f"more than {known[-1][0]}"


def _print_side_effects(lines: Sequence[Line]) -> None:
    print("| way | words (before) | nats a token from the base model | perplexity of plain text | runs |")
    print("|---|---|---|---|---|")
    for arm in ARMS:
        runs = [line for line in lines if line["arm"] == arm]
        if runs:
            words = f"{fmean(line['words'] for line in runs):.0f} ({fmean(line['words_before'] for line in runs):.0f})"
            moved = [line["kl"] for line in runs if line["kl"] is not None]
            kl = f"{fmean(moved):.2f}" if moved else "-"
            perplexity = f"{100 * (fmean(line['perplexity'] for line in runs) - 1):+.1f} %"
            print(f"| {arm} | {words} | {kl} | {perplexity} | {len(runs)} |")
