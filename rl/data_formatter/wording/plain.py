"""Ratchet's own templates: short, and answered with names.

What is the same for every question comes first, so that prompts share a prefix, in training as in serving.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rl.data_formatter.wording.contract import SIZES, Ask, Picked
from rl.data_formatter.wording.parts import data_lines, entities, fixture_lines, names


class PlainPrompts:
    def ask_for_widgets(self, ask: Ask) -> str:
        return "\n".join(
            (
                "Select the dashboard widgets that answer the query best. Answer with their names and sizes, the largest "
                "first, as in: name (size), name (size).",
                f"Widgets: {', '.join(sorted(set(ask.scenarios)))}",
                f"Sizes: {', '.join(SIZES)}",
                *_query_lines(ask),
            )
        )

    def ask_for_fixture(self, ask: Ask) -> str:
        return "\n".join(
            (
                "Select the variant that shows the widget best for the query. Answer with its name only.",
                f"Widget: {ask.widget.scenario}",
                "Variants:",
                *fixture_lines(ask.fixtures),
                *_query_lines(ask),
            )
        )


class PlainAnswers:
    def write_widgets(self, picked: Sequence[Picked], ask: Ask) -> str:
        return ", ".join(f"{widget.scenario} ({widget.size})" for widget in picked)

    def write_fixture(self, name: str, ask: Ask) -> str:
        return name


def _query_lines(ask: Ask) -> Iterator[str]:
    yield f"Query: {ask.widget.question}"
    if domains := names(ask.widget.intent.get("domains")):
        yield f"Domains: {domains}"
    for kind, listed in entities(ask.widget.intent).items():
        yield f"Entities, {kind}: {listed}"
    yield from (f"Data: {line}" for line in data_lines(ask.data))


PROMPTS, ANSWERS = PlainPrompts(), PlainAnswers()
