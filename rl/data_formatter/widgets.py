"""Preference pairs from rated dashboard widgets: which widgets (scenarios) suit a question, and how to draw one (fixtures).

An answer to the first question is a whole selection, such as ``comparison (hero), kpi (compact)``: all scenarios of the
question that raters liked, the largest first. The rejected answer is the same selection with one liked scenario replaced
by a disliked one. So both have the same number of widgets, and all that a model can learn from a pair is what raters said:
neither that short selections are better nor that long ones are."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from rl.base.errors import UsageError
from rl.base.records import PreferencePair, RatedAnswer, WidgetChoice
from rl.data_formatter.opinions import (
    BY_MAJORITY,
    MIXED_SCENARIO,
    NO_WIDGET,
    UNKNOWN_SCENARIO,
    MergedOpinion,
    PairLimits,
    chosen_pairs,
    group_answers,
    metadata,
    opinions,
)
from rl.data_formatter.wording import PLAIN
from rl.data_formatter.wording.contract import SIZES, Ask, Picked, Wording

CLEAR_MAJORITY = 0.75
"""Least share of all thumbs that settles a scenario which was liked in one fixture and disliked in another."""
MAJORITY_THUMBS = 4
"""Fewest thumbs that can have such a majority."""


def build_widget_dpo_pairs(
    entries: Iterable[RatedAnswer],
    all_scenarios: Sequence[str],
    *,
    max_pairs_per_question: int = 5,
    min_confidence: float = 0.5,
    wording: Wording = PLAIN,
    skipped: Counter[str] | None = None,
    taken: Counter[str] | None = None,
) -> list[PreferencePair]:
    """``all_scenarios``: what may be chosen; ``wording``: how that is put, and answered. ``taken`` counts the disputed
    scenarios that a clear majority settled, under BY_MAJORITY. Raises UsageError when there are no scenarios."""
    options = PairLimits(max_pairs_per_question, min_confidence)
    skipped = Counter() if skipped is None else skipped
    taken = Counter() if taken is None else taken
    known = frozenset(all_scenarios)
    if not known:
        raise UsageError("no scenarios to choose from: all_scenarios must name what the model may select")
    pairs: list[PreferencePair] = []
    for question_id, answers in group_answers(_with_widget(entries, known, skipped), attrgetter("prompt_key")):
        scenarios = list(_scenario_opinions(answers, options, skipped, taken))
        best = chosen_pairs(scenarios, options, skipped)
        if best:
            liked = sorted((o for o in scenarios if o.verdict == "up"), key=lambda o: (_size_rank(o.size), o.key))
            ask = Ask(_widget(answers[0]), all_scenarios, data=[_widget(answer).data for answer in answers])
            pairs += (_selection_pair(question_id, ask, wording, liked, up, down) for up, down in best)
    return pairs


def build_fixture_dpo_pairs(
    entries: Iterable[RatedAnswer],
    fixture_descriptions: Mapping[str, str],
    *,
    fixtures: Mapping[str, Iterable[str]] = {},
    max_pairs_per_question: int = 5,
    min_confidence: float = 0.5,
    wording: Wording = PLAIN,
    skipped: Counter[str] | None = None,
) -> list[PreferencePair]:
    """Every liked fixture of a question's scenario against every disliked one; the answer is the fixture's name.

    ``fixture_descriptions``: what the prompt says about a fixture, where known. ``fixtures``: what there is to choose among
    for a scenario, beside what was rated."""
    options = PairLimits(max_pairs_per_question, min_confidence)
    skipped = Counter() if skipped is None else skipped
    pairs: list[PreferencePair] = []
    rated = _with_widget(entries, None, skipped)
    by_scenario = group_answers(rated, lambda answer: (answer.prompt_key, _widget(answer).scenario))
    for (question_id, scenario), answers in by_scenario:
        best = chosen_pairs(opinions(answers, _fixture, options, skipped), options, skipped)
        if best:
            named = {*map(_fixture, answers), *fixtures.get(scenario, ())}
            descriptions = {fixture: fixture_descriptions.get(fixture, "") for fixture in named}
            data = [_widget(answer).data for answer in answers]
            ask = Ask(_widget(answers[0]), fixtures=descriptions, data=data)
            for up, down in best:
                about = metadata("fixture", min(up.confidence, down.confidence), up.feedback_ids | down.feedback_ids)
                chosen, rejected = (wording.answers.write_fixture(opinion.key, ask) for opinion in (up, down))
                prompt = wording.prompts.ask_for_fixture(ask)
                pairs.append(PreferencePair(prompt, chosen, rejected, question_id, scenario, about))
    return pairs


@dataclass(frozen=True)
class _Scenario(MergedOpinion):
    """A scenario's opinion is the sum of its fixtures'."""

    size: str = SIZES[-1]

    @property
    def picked(self) -> Picked:
        return Picked(self.key, self.size, _widget(self.answers[0]))


def _scenario_opinions(
    answers: Sequence[RatedAnswer], options: PairLimits, skipped: Counter[str], taken: Counter[str]
) -> Iterator[_Scenario]:
    for name, of_scenario in group_answers(answers, lambda answer: _widget(answer).scenario):
        left_out: Counter[str] = Counter()
        fixtures = opinions(of_scenario, _fixture, options, left_out)
        if len({fixture.verdict for fixture in fixtures}) > 1:
            whole = _scenario(name, of_scenario)
            # Every thumb counts, those on fixtures that ended in a tie too.
            share = max(CLEAR_MAJORITY, options.min_confidence)
            if whole.up + whole.down >= MAJORITY_THUMBS and whole.confidence >= share:
                taken[BY_MAJORITY] += 1
                yield whole
                continue
            left_out[MIXED_SCENARIO] += 1  # raters judged how it was drawn, not whether it suits the question
        elif fixtures:
            yield _scenario(name, [answer for fixture in fixtures for answer in fixture.answers])
        skipped.update(left_out)


def _scenario(name: str, answers: Iterable[RatedAnswer]) -> _Scenario:
    rated = tuple(answer for answer in answers if answer.up or answer.down)
    # The most frequent one; the larger of two equally frequent ones.
    counts = Counter(_widget(answer).size for answer in rated)
    return _Scenario(name, rated, min(counts, key=lambda size: (-counts[size], _size_rank(size))))


def _size_rank(size: str) -> tuple[int, str]:
    return (SIZES.index(size) if size in SIZES else len(SIZES), size)


def _selection_pair(
    question_id: str, ask: Ask, wording: Wording, liked: Sequence[_Scenario], up: _Scenario, down: _Scenario
) -> PreferencePair:
    """All liked scenarios are part of the texts, so the feedback on all of them went into the pair."""
    prompts, answers = wording
    chosen = answers.write_widgets([scenario.picked for scenario in liked], ask)
    swapped = [(down if scenario is up else scenario).picked for scenario in liked]
    rejected = answers.write_widgets(swapped, ask)
    feedback_ids = down.feedback_ids.union(*(scenario.feedback_ids for scenario in liked))
    about = metadata("widget", min(up.confidence, down.confidence), feedback_ids)
    return PreferencePair(prompts.ask_for_widgets(ask), chosen, rejected, question_id, None, about)


def _with_widget(
    entries: Iterable[RatedAnswer], known: frozenset[str] | None, skipped: Counter[str]
) -> Iterator[RatedAnswer]:
    for entry in entries:
        if entry.widget is None:
            skipped[NO_WIDGET] += 1
        elif known is not None and entry.widget.scenario not in known:
            skipped[UNKNOWN_SCENARIO] += 1
        else:
            yield entry


def _widget(answer: RatedAnswer) -> WidgetChoice:
    if answer.widget is None:
        raise ValueError(f"answer {answer.answer_id} has no widget")
    return answer.widget


def _fixture(answer: RatedAnswer) -> str:
    return _widget(answer).fixture
