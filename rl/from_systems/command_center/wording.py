"""How Command Center's production system asks for widgets and how it is answered: JSON with a heading and a list of widgets,
and JSON with a list of fixtures. The sections are those of its prompt and the words are ours: where an evolved prompt is in
use, a template taken from what the gateway recorded says exactly what is asked. And its pair builders: entries are
dictionaries, and what comes out is what is trained here."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rl.base.records import Message, PreferencePair, RatedAnswer
from rl.collect.command_center import ONLY_FIXTURE, widget_choice
from rl.data_formatter import build_fixture_dpo_pairs as build_fixture_pairs
from rl.data_formatter import build_widget_dpo_pairs as build_widget_pairs
from rl.data_formatter.wording.contract import (
    SIZES,
    Ask,
    Picked,
    Wording,
    data_lines,
    entities,
    fixture_lines,
    names,
    shown_values,
)


class WidgetPurpose(NamedTuple):
    shows: str
    good_for: str


CATALOGUE: Mapping[str, WidgetPurpose] = {
    "alerts": WidgetPurpose("alarms with their severity and state", "what needs attention now"),
    "category-bar": WidgetPurpose("one bar for each category", "ranking machines, shifts or areas"),
    "chatstream": WidgetPurpose("messages of people and assistants", "what was said about an event"),
    "comparison": WidgetPurpose("two or more values beside each other", "differences between devices or periods"),
    "composition": WidgetPurpose("the parts of a whole", "shares of a total"),
    "diagnosticpanel": WidgetPurpose("checks of a device and their results", "finding the cause of a fault"),
    "distribution": WidgetPurpose("how values spread", "outliers and usual ranges"),
    "edgedevicepanel": WidgetPurpose("one device with its readings and state", "the details of a single device"),
    "eventlogstream": WidgetPurpose("events in the order in which they came", "what happened, line by line"),
    "flow-sankey": WidgetPurpose(
        "flows from sources to sinks, as wide as they are large", "where energy or material goes"
    ),
    "kpi": WidgetPurpose("one number with its unit and its change", "a single value at a glance"),
    "matrix-heatmap": WidgetPurpose("two dimensions by colour", "patterns by hour, day or machine"),
    "peoplehexgrid": WidgetPurpose("people as a grid of cells", "who is where, and in which role"),
    "peoplenetwork": WidgetPurpose("people and their ties", "who works with whom"),
    "peopleview": WidgetPurpose("people with role, shift and state", "staff on duty"),
    "supplychainglobe": WidgetPurpose("sites and routes on a globe", "suppliers and transports"),
    "timeline": WidgetPurpose("spans of time, one below the other", "when states or work began and ended"),
    "trend": WidgetPurpose("one value over time", "how a value develops"),
    "trend-multi-line": WidgetPurpose("several values over the same time", "devices or phases compared over time"),
    "trends-cumulative": WidgetPurpose("totals that add up over time", "consumption since a date"),
    "uncertaintypanel": WidgetPurpose(
        "what is not known, and how sure the rest is", "answers that rest on little data"
    ),
}
FIRST_RELEVANCE, STEP, LEAST_RELEVANCE = 0.95, 0.05, 0.5
"""By position alone: people said which widgets suit, not how much."""
_SYSTEM = "You put together dashboards for an industrial command center. Answer with one JSON object and nothing else."
_RULES = (
    "Use widget names of the list only, exactly as they are written.",
    "The first widget answers the query itself and is the largest; the others add to it.",
    "Take no widget that the query does not need, and none whose data is not there.",
    f"size is one of {', '.join(SIZES)}: a larger one for what matters more.",
    "relevance is from 0 to 1 and never rises from one widget to the next.",
    "data_request says what the widget needs: the question, the metric and the devices.",
)
_SHAPE = (
    '{"heading": "…", "widgets": [{"scenario": "…", "size": "…", "relevance": 0.95, '
    '"data_request": {"query": "…", "metric": "…", "entities": ["…"]}}]}'
)
_FIXTURE_SHAPE = '{"fixtures": [{"index": 0, "fixture": "…", "reason": "…"}]}'


class WidgetPrompts:
    def ask_for_widgets(self, ask: Ask) -> list[Message]:
        rules = [f"{number}. {rule}" for number, rule in enumerate(_RULES, 1)]
        known = {name: f": shows {entry.shows}; good for {entry.good_for}" for name, entry in CATALOGUE.items()}
        return _messages(
            ["## WIDGETS", *(f"- {name}{known.get(name, '')}" for name in sorted(set(ask.scenarios)))],
            _query(ask),
            ["## RULES", *rules],
            ["## ANSWER", _SHAPE],
        )

    def ask_for_fixture(self, ask: Ask) -> list[Message]:
        return _messages(
            ["## WIDGET 0", f"{ask.widget.scenario} ({ask.widget.size})", "Fixtures:", *fixture_lines(ask.fixtures)],
            _query(ask),
            ["## RULES", "Choose one fixture of its list for each widget, the one that shows this data best."],
            ["## ANSWER", _FIXTURE_SHAPE],
        )


class WidgetAnswers:
    def write_widgets(self, picked: Sequence[Picked], ask: Ask) -> str:
        widgets = []
        for rank, choice in enumerate(picked):
            listed = ", ".join(entities(choice.widget.intent).values())
            label = shown_values(choice.widget.data).get("label")
            request = {
                "query": choice.widget.question,
                "metric": label if isinstance(label, str) else "",
                "entities": listed.split(", ") if listed else [],
            }
            about = {
                "relevance": max(LEAST_RELEVANCE, round(FIRST_RELEVANCE - STEP * rank, 2)),
                "data_request": request,
            }
            widgets.append({"scenario": choice.scenario, "size": choice.size, **about})
        return _json({"heading": ask.widget.heading or ask.widget.question, "widgets": widgets})

    def write_fixture(self, name: str, ask: Ask) -> str:
        return _json({"fixtures": [{"index": 0, "fixture": name, "reason": ""}]})


def _messages(*sections: Iterable[str]) -> list[Message]:
    text = "\n\n".join("\n".join(section) for section in sections)
    return [Message(role="system", content=_SYSTEM), Message(role="user", content=text)]


def _query(ask: Ask) -> Iterator[str]:
    intent = ask.widget.intent
    yield "## QUERY"
    yield ask.widget.question
    named = "; ".join(f"{kind}: {listed}" for kind, listed in entities(intent).items())
    yield f"Intent: {_said(intent.get('type'))} | Domains: {_said(intent.get('domains'))} | Entities: {named or 'none'}"
    primary, secondary = (intent.get(name) for name in ("primary_characteristic", "secondary_characteristics"))
    yield f"Primary: {_said(primary)} | Secondary: {_said(secondary)}"
    if lines := data_lines(ask.data):
        yield "Available data:"
        yield from (f"- {line}" for line in lines)


def _said(value: object) -> str:
    return names(value) or "none"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


PROMPTS, ANSWERS = WidgetPrompts(), WidgetAnswers()
MOST_PAIRS = 5
WORDING = Wording(PROMPTS, ANSWERS)
REQUIRED = ("question_id", "scenario", "rating", "question")


def build_widget_dpo_pairs(
    entries: Iterable[Mapping[str, Any]], all_scenarios: Sequence[str], max_pairs_per_question: int | None = None
) -> list[PreferencePair]:
    """An entry has ``question_id``, ``scenario``, ``rating`` (up or down; others are left out) and ``question``, and where
    known ``fixture``, ``size``, ``data_override``, ``pipeline_meta`` and ``layout_context``. Raises ValueError for one
    without."""
    answers = _answers(entries)
    return build_widget_pairs(
        answers, all_scenarios, max_pairs_per_question=max_pairs_per_question or MOST_PAIRS, wording=WORDING
    )


def build_fixture_dpo_pairs(
    entries: Iterable[Mapping[str, Any]],
    fixture_descriptions: Mapping[str, Mapping[str, str]],
    max_pairs_per_question: int | None = None,
) -> list[PreferencePair]:
    """``fixture_descriptions``: scenario to fixture to what it shows. Raises ValueError."""
    descriptions = {slug: text for of_scenario in fixture_descriptions.values() for slug, text in of_scenario.items()}
    return build_fixture_pairs(
        _answers(entries),
        descriptions,
        fixtures=fixture_descriptions,
        max_pairs_per_question=max_pairs_per_question or MOST_PAIRS,
        wording=WORDING,
    )


def build_combined_dpo_pairs(
    entries: Iterable[Mapping[str, Any]],
    all_scenarios: Sequence[str] | None = None,
    fixture_descriptions: Mapping[str, Mapping[str, str]] | None = None,
    max_pairs_per_question: int | None = None,
) -> list[PreferencePair]:
    """Both kinds. Without lists what the catalogue, or the entries, name. Raises ValueError."""
    known = list(entries)
    scenarios = sorted({*CATALOGUE, *(str(entry.get("scenario")) for entry in known)})
    widgets = build_widget_dpo_pairs(
        known, scenarios if all_scenarios is None else all_scenarios, max_pairs_per_question
    )
    return widgets + build_fixture_dpo_pairs(known, fixture_descriptions or {}, max_pairs_per_question)


def get_all_scenarios() -> list[str]:
    """Those of the catalogue."""
    return sorted(CATALOGUE)


def _answers(entries: Iterable[Mapping[str, Any]]) -> list[RatedAnswer]:
    """Raises ValueError."""
    answers = []
    for number, entry in enumerate(entries, 1):
        if entry.get("rating") not in ("up", "down", None):
            continue
        if missing := [name for name in REQUIRED if name not in entry]:
            raise ValueError(f"entry {number} has no {missing[0]}: an entry has {', '.join(REQUIRED)}")
        prompt = (Message(role="user", content=str(entry["question"])),)
        details = {**entry, "fixture": entry.get("fixture") or ONLY_FIXTURE, "size": entry.get("size") or "normal"}
        widget = widget_choice(details, prompt)
        if widget is None:
            raise ValueError(f"entry {number}: scenario and fixture are names, and size is one of {', '.join(SIZES)}")
        answers.append(
            RatedAnswer(
                answer_id=f"{number:08}",
                prompt_key=str(entry["question_id"]),
                prompt=prompt,
                response=f"{widget.scenario} ({widget.size}): {widget.fixture}",
                up=int(entry["rating"] == "up"),
                down=int(entry["rating"] == "down"),
                feedback_ids=(number,),
                widget=widget,
            )
        )
    return answers
