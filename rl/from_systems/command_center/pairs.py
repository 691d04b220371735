"""Command Center's pair builders: entries are dictionaries, and what comes out is what is trained here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rl.base.records import Message, PreferencePair, RatedAnswer
from rl.collect.command_center import ONLY_FIXTURE, widget_choice
from rl.data_formatter import build_fixture_dpo_pairs as build_fixture_pairs
from rl.data_formatter import build_widget_dpo_pairs as build_widget_pairs
from rl.data_formatter.wording.contract import SIZES, Wording
from rl.from_systems.command_center.wording import ANSWERS, CATALOGUE, PROMPTS

Entry = Mapping[str, Any]
MOST_PAIRS = 5
WORDING = Wording(PROMPTS, ANSWERS)
REQUIRED = ("question_id", "scenario", "rating", "question")


def build_widget_dpo_pairs(
    entries: Iterable[Entry], all_scenarios: Sequence[str], max_pairs_per_question: int | None = None
) -> list[PreferencePair]:
    """An entry has ``question_id``, ``scenario``, ``rating`` (up or down; others are left out) and ``question``, and where
    known ``fixture``, ``size``, ``data_override``, ``pipeline_meta`` and ``layout_context``. Raises ValueError for one
    without."""
    answers = _answers(entries)
    return build_widget_pairs(
        answers, all_scenarios, max_pairs_per_question=max_pairs_per_question or MOST_PAIRS, wording=WORDING
    )


def build_fixture_dpo_pairs(
    entries: Iterable[Entry],
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
    entries: Iterable[Entry],
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


def _answers(entries: Iterable[Entry]) -> list[RatedAnswer]:
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
