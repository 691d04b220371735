"""Preference pairs from rated dashboard widgets: which widgets (scenarios) suit a question, and how to draw one (fixtures).

An answer to the first question is a whole selection, ``comparison (hero), kpi (compact)``: all scenarios of the question
that raters liked, the largest first. The rejected answer is the same selection with one liked scenario replaced by a
disliked one. So both have the same number of widgets, and all that a model can learn from a pair is what raters said:
neither that short selections are better nor that long ones are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rl.base.errors import UsageError
from rl.base.records import PreferencePair, RatedAnswer, WidgetChoice
from rl.data_formatter.opinions import (
    BY_MAJORITY,
    MIXED_SCENARIO,
    NO_WIDGET,
    UNKNOWN_SCENARIO,
    Opinion,
    Options,
    chosen_pairs,
    group_answers,
    metadata,
    opinions,
)

SIZES = ("hero", "expanded", "normal", "compact")
"""Sizes of a widget, the largest first."""
DATA_CHARACTERS = 300
"""Most characters of each widget's data."""
DATA_LINES = 4
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
    skipped: Counter[str] | None = None,
    taken: Counter[str] | None = None,
) -> list[PreferencePair]:
    """``all_scenarios``: what may be chosen; the prompt names them. ``taken`` counts the disputed scenarios that a clear
    majority settled, under BY_MAJORITY. Raises UsageError when there are no scenarios."""
    options = Options(max_pairs_per_question, min_confidence)
    skipped = Counter() if skipped is None else skipped
    taken = Counter() if taken is None else taken
    known = frozenset(all_scenarios)
    if not known:
        raise UsageError("no scenarios to choose from: all_scenarios must name what the model may select")
    pairs: list[PreferencePair] = []
    for question_id, answers in group_answers(_with_widget(entries, known, skipped), _question):
        scenarios = list(_scenario_opinions(answers, options, skipped, taken))
        best = chosen_pairs(scenarios, options, skipped)
        if best:
            liked = sorted((o for o in scenarios if o.verdict == "up"), key=_page_order)
            prompt = widget_prompt(all_scenarios, _widget(answers[0]), _data(answers))
            pairs += (_selection_pair(question_id, prompt, liked, up, down) for up, down in best)
    return pairs


def build_fixture_dpo_pairs(
    entries: Iterable[RatedAnswer],
    fixture_descriptions: Mapping[str, str],
    *,
    max_pairs_per_question: int = 5,
    min_confidence: float = 0.5,
    skipped: Counter[str] | None = None,
) -> list[PreferencePair]:
    """Every liked fixture of a question's scenario against every disliked one; the answer is the fixture's name.

    ``fixture_descriptions``: what the prompt says about a fixture, where known.
    """
    options = Options(max_pairs_per_question, min_confidence)
    skipped = Counter() if skipped is None else skipped
    pairs: list[PreferencePair] = []
    for (question_id, scenario), answers in group_answers(_with_widget(entries, None, skipped), _question_and_scenario):
        best = chosen_pairs(opinions(answers, _fixture, options, skipped), options, skipped)
        if best:
            descriptions = {fixture: fixture_descriptions.get(fixture, "") for fixture in map(_fixture, answers)}
            prompt = fixture_prompt(descriptions, _widget(answers[0]), _data(answers))
            pairs += (_fixture_pair(question_id, scenario, prompt, up, down) for up, down in best)
    return pairs


def widget_prompt(all_scenarios: Sequence[str], widget: WidgetChoice, data: Sequence[Mapping[str, Any]]) -> str:
    """What is the same for every question comes first, so that prompts share a prefix, in training as in serving."""
    return "\n".join(
        (
            "Select the dashboard widgets that answer the query best. Answer with their names and sizes, the largest "
            "first, as in: name (size), name (size).",
            f"Widgets: {', '.join(sorted(set(all_scenarios)))}",
            f"Sizes: {', '.join(SIZES)}",
            *_query_lines(widget, data),
        )
    )


def fixture_prompt(fixtures: Mapping[str, str], widget: WidgetChoice, data: Sequence[Mapping[str, Any]]) -> str:
    """``fixtures``: name to description; an empty description is left out."""
    return "\n".join(
        (
            "Select the variant that shows the widget best for the query. Answer with its name only.",
            f"Widget: {widget.scenario}",
            "Variants:",
            *(f"- {name}: {text}" if text else f"- {name}" for name, text in sorted(fixtures.items())),
            *_query_lines(widget, data),
        )
    )


# --- the parts of a prompt ---------------------------------------------------------------------------------------------


def _query_lines(widget: WidgetChoice, data: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f"Query: {widget.question}"
    if domains := _names(widget.intent.get("domains")):
        yield f"Domains: {domains}"
    entities = widget.intent.get("entities")
    if isinstance(entities, Mapping):
        for kind, names in sorted(entities.items()):
            if listed := _names(names):
                yield f"Entities, {kind}: {listed}"
    yield from (f"Data: {line}" for line in _data_lines(data))


def _names(value: object) -> str:
    """A list of names, or one name; anything else is ignored."""
    if isinstance(value, str):
        return value
    return ", ".join(str(name) for name in value if isinstance(name, (str, int))) if isinstance(value, list) else ""


def _data_lines(data: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted({_shorten(_describe(widget_data)) for widget_data in data if widget_data})[:DATA_LINES]


def _describe(data: Mapping[str, Any]) -> str:
    """Label, unit and the values' names where there is a label, else JSON. The values differ from widget to widget."""
    values = data.get("demoData", data)  # what Command Center's gallery shows is wrapped in "demoData"
    if not isinstance(values, Mapping) or not isinstance(values.get("label"), str):
        return json.dumps(values, ensure_ascii=False, sort_keys=True)
    unit = f" ({values['unit']})" if values.get("unit") else ""
    return ", ".join([values["label"] + unit, *sorted(values.keys() - {"label", "unit"})])


def _shorten(text: str) -> str:
    return text if len(text) <= DATA_CHARACTERS else text[: DATA_CHARACTERS - 1] + "…"


# --- from entries to pairs ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scenario(Opinion):
    """A scenario's opinion is the sum of its fixtures'."""

    size: str = SIZES[-1]

    @property
    def text(self) -> str:
        return f"{self.key} ({self.size})"


def _scenario_opinions(
    answers: Sequence[RatedAnswer], options: Options, skipped: Counter[str], taken: Counter[str]
) -> Iterator[_Scenario]:
    for name, of_scenario in group_answers(answers, _scenario_name):
        left_out: Counter[str] = Counter()
        fixtures = opinions(of_scenario, _fixture, options, left_out)
        if len({fixture.verdict for fixture in fixtures}) > 1:
            whole = _scenario(name, of_scenario)
            if _has_clear_majority(whole, options):
                taken[BY_MAJORITY] += 1
                yield whole
                continue
            left_out[MIXED_SCENARIO] += 1  # raters judged how it was drawn, not whether it suits the question
        elif fixtures:
            yield _scenario(name, [answer for fixture in fixtures for answer in fixture.answers])
        skipped.update(left_out)


def _scenario(name: str, answers: Iterable[RatedAnswer]) -> _Scenario:
    rated = tuple(answer for answer in answers if answer.up or answer.down)
    return _Scenario(name, rated, _usual_size(rated))


def _has_clear_majority(scenario: _Scenario, options: Options) -> bool:
    """Every thumb counts, those on fixtures that ended in a tie too."""
    share = max(CLEAR_MAJORITY, options.min_confidence)
    return scenario.up + scenario.down >= MAJORITY_THUMBS and scenario.confidence >= share


def _usual_size(answers: Sequence[RatedAnswer]) -> str:
    """The most frequent one; the larger of two equally frequent ones."""
    counts = Counter(_widget(answer).size for answer in answers)
    return min(counts, key=lambda size: (-counts[size], _size_rank(size)))


def _size_rank(size: str) -> tuple[int, str]:
    return (SIZES.index(size) if size in SIZES else len(SIZES), size)


def _page_order(scenario: _Scenario) -> tuple[tuple[int, str], str]:
    return (_size_rank(scenario.size), scenario.key)


def _selection_pair(
    question_id: str, prompt: str, liked: Sequence[_Scenario], up: _Scenario, down: _Scenario
) -> PreferencePair:
    """All liked scenarios are part of the texts, so the feedback on all of them went into the pair."""
    chosen = ", ".join(scenario.text for scenario in liked)
    rejected = ", ".join((down if scenario is up else scenario).text for scenario in liked)
    feedback_ids = down.feedback_ids.union(*(scenario.feedback_ids for scenario in liked))
    about = metadata("widget", min(up.confidence, down.confidence), feedback_ids)
    return PreferencePair(prompt, chosen, rejected, question_id, None, about)


def _fixture_pair(question_id: str, scenario: str, prompt: str, up: Opinion, down: Opinion) -> PreferencePair:
    confidence = min(up.confidence, down.confidence)
    about = metadata("fixture", confidence, up.feedback_ids | down.feedback_ids)
    return PreferencePair(prompt, up.key, down.key, question_id, scenario, about)


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


def _question(answer: RatedAnswer) -> str:
    return answer.prompt_key


def _question_and_scenario(answer: RatedAnswer) -> tuple[str, str]:
    return answer.prompt_key, _widget(answer).scenario


def _scenario_name(answer: RatedAnswer) -> str:
    return _widget(answer).scenario


def _fixture(answer: RatedAnswer) -> str:
    return _widget(answer).fixture


def _data(answers: Sequence[RatedAnswer]) -> list[Mapping[str, Any]]:
    return [_widget(answer).data for answer in answers]
