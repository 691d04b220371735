"""The builder of each pair type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypedDict

from rl.base.records import PreferencePair
from rl.data_formatter import build_fixture_dpo_pairs, build_preference_pairs, build_widget_dpo_pairs
from rl.data_formatter.opinions import NO_WIDGET
from rl.data_formatter.wording.contract import Wording
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.read.groups import DIRECT, PromptGroup, Source, Tally


class _Limits(TypedDict):
    """What every builder of pairs is told."""

    max_pairs_per_question: int
    min_confidence: float
    skipped: Counter[str]


@dataclass(frozen=True, slots=True)
class _Choices:
    """What there is to choose among, and how that is put and answered."""

    fixtures: Mapping[str, tuple[str, ...]]
    """Widget to its variants."""
    wording: Wording


Builder = Callable[[PromptGroup, _Choices, _Limits, Tally], list[PreferencePair]]


def paired_groups(
    source: Source, options: DataOptions, wording: Wording, tally: Tally
) -> Iterator[tuple[PromptGroup, list[PreferencePair]]]:
    """Every prompt of the source with its pairs, which may be none."""
    builders = _BUILDERS[options.pair_type]
    choices = _Choices({} if options.pair_type == "preference" else source.fixtures(), wording)
    limits = _Limits(
        max_pairs_per_question=options.max_pairs_per_question,
        min_confidence=options.min_confidence,
        skipped=tally.skipped,
    )
    for group in source.groups(tally):
        pairs = [pair for build in builders for pair in build(group, choices, limits, tally)]
        if options.pair_type != "preference" and group.direct:
            tally.skipped[DIRECT] += len(group.direct)
        _take_stock(group, pairs, tally)
        yield group, pairs


def _take_stock(group: PromptGroup, pairs: list[PreferencePair], tally: Tally) -> None:
    tally.prompts_read += 1
    tally.prompts += bool(pairs)
    tally.disputed += sum(answer.is_disputed for answer in group.answers)
    tally.usable += len({number for pair in pairs for number in (pair.metadata or {}).get("feedback", ())})


def _widget(group: PromptGroup, choices: _Choices, limits: _Limits, tally: Tally) -> list[PreferencePair]:
    if not choices.fixtures:
        limits["skipped"][NO_WIDGET] += len(group.answers)
        return []
    return build_widget_dpo_pairs(
        group.answers, [*choices.fixtures], wording=choices.wording, taken=tally.taken, **limits
    )


def _fixture(group: PromptGroup, choices: _Choices, limits: _Limits, tally: Tally) -> list[PreferencePair]:
    # The names say what they show; Command Center's files describe none.
    return build_fixture_dpo_pairs(group.answers, {}, fixtures=choices.fixtures, wording=choices.wording, **limits)


def _preference(group: PromptGroup, choices: _Choices, limits: _Limits, tally: Tally) -> list[PreferencePair]:
    return build_preference_pairs(group.answers, group.direct, **limits)


_BUILDERS: dict[str, tuple[Builder, ...]] = {
    "widget": (_widget,),
    "fixture": (_fixture,),
    "preference": (_preference,),
    "both": (_widget, _fixture),
}
