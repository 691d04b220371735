"""Makes files like Command Center's, of any size, with a taste that a model can learn: the seed decides everything."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

SCENARIOS = {
    "comparison": (
        "waterfall_visual-loss-analysis",
        "grouped_bar_visual-phase-comparison",
        "side_by_side_visual-plain",
    ),
    "kpi": ("kpi_live-high-contrast", "kpi_live-sparkline", "kpi_accumulated-daily"),
    "trend": ("trend_live-line", "trend_live-area", "trend_live-step"),
    "alerts": ("alerts_list-critical", "alerts_badge-summary"),
    "distribution": ("pie_visual-energy-share", "donut_visual-load-share", "stacked_bar_visual-shift-share"),
    "flow-sankey": ("sankey_visual-energy-balance", "sankey_visual-losses"),
    "timeline": ("timeline_linear-incidents", "timeline_lanes-machines"),
    "edge-device-panel": ("device_panel-compact", "device_panel-detailed"),
}
SUITS = {
    "comparison": ("comparison", "distribution"),
    "status": ("kpi", "edge-device-panel"),
    "history": ("trend", "timeline"),
    "incident": ("alerts", "timeline"),
}
"""Which scenarios people like for a category of question."""
QUESTIONS = {
    "comparison": "Compare the {quantity} of {a} and {b}",
    "status": "What is the {quantity} of {a} right now?",
    "history": "How did the {quantity} of {a} change this week?",
    "incident": "Why did {a} raise an alarm about its {quantity}?",
}
QUANTITIES = {
    "energy use": "kWh",
    "voltage": "V",
    "temperature": "°C",
    "vibration": "mm/s",
    "load": "%",
    "flow": "m³/h",
}
DEVICES = ("Transformer 1", "Transformer 2", "Pump 4", "Chiller 2", "Compressor 3", "Boiler 1", "Motor 7", "DG set 2")
SIZES = ("hero", "expanded", "normal", "compact")


@dataclass(frozen=True)
class Files:
    entries: Path
    ratings: Path
    entry_count: int
    rating_count: int


def write_files(
    folder: Path, questions: int = 20, seed: int = 1, *, rated_share: float = 0.8, noise: float = 0.05
) -> Files:
    """``noise``: share of the ratings that say the opposite of the common taste."""
    rng = random.Random(seed)
    entries, ratings = folder / "exhaustive_data.json", folder / "ratings.json"
    rated: dict[str, Any] = {}
    count = 0
    with entries.open("w", encoding="utf-8") as file:
        file.write(json.dumps(_header(questions))[:-1] + ', "entries": [')
        for count, (entry, liked) in enumerate(_entries(questions, rng), 1):
            file.write((",\n" if count > 1 else "\n") + json.dumps(entry, ensure_ascii=False))
            if rng.random() < rated_share:
                rated[entry["entry_id"]] = _rating(liked != (rng.random() < noise), count)
        file.write("\n]}\n")
    ratings.write_text(json.dumps({"ratings": rated}, indent=1), encoding="utf-8")
    return Files(entries, ratings, count, len(rated))


def _header(questions: int) -> dict[str, Any]:
    return {
        "run_id": "exhaustive_2026-02-01_124606",
        "created_at": "2026-02-01T12:46:57.957462",
        "question_bank": "question_bank_exhaustive.json",
        "total_questions": questions,
        "failed_questions": 0,
    }


def _entries(questions: int, rng: random.Random) -> Iterator[tuple[dict[str, Any], bool]]:
    number = 0
    for index in range(1, questions + 1):
        question = _question(index, rng)
        for scenario, fixtures in SCENARIOS.items():
            suits = scenario in SUITS[question["category"]]
            for place, fixture in enumerate(fixtures):
                number += 1
                entry = _entry(f"e{number:05}", question, scenario, fixture, suits, rng)
                # One scenario in four has a drawing that nobody likes; the others are liked or not in all of them.
                yield entry, suits and not (place and hash_of(scenario, question["category"]) % 4 == 0)


def hash_of(*words: str) -> int:
    return sum(ord(letter) for word in words for letter in word)


def _question(index: int, rng: random.Random) -> dict[str, Any]:
    category = rng.choice(sorted(QUESTIONS))
    quantity = rng.choice(sorted(QUANTITIES))
    a, b = rng.sample(DEVICES, 2)
    return {
        "question_id": f"q{index:03}",
        "question": QUESTIONS[category].format(quantity=quantity, a=a, b=b) + f" (case {index})",
        "category": category,
        "devices": [a, b] if category == "comparison" else [a],
        "quantity": quantity,
    }


def _entry(
    entry_id: str, question: dict[str, Any], scenario: str, fixture: str, natural: bool, rng: random.Random
) -> dict[str, Any]:
    value = round(rng.uniform(1, 100), 1)
    data = {"label": question["quantity"].capitalize(), "unit": QUANTITIES[question["quantity"]], "valueA": value}
    intent = {
        "type": "query",
        "domains": ["industrial"],
        "entities": {"devices": question["devices"]},
        "confidence": 0.9,
    }
    return {
        "entry_id": entry_id,
        "question_id": question["question_id"],
        "question": question["question"],
        "category": question["category"],
        "scenario": scenario,
        "fixture": fixture,
        "size": SIZES[hash_of(scenario) % len(SIZES)],
        "natural": natural,
        "forced": not natural,
        "pipeline_selected_fixture": SCENARIOS[scenario][0] if natural else None,
        "widget_index": hash_of(scenario) % 7 if natural else -1,
        "data_override": {"demoData": data},
        "layout_context": {"heading": question["question"][:40], "total_widgets": 7, "position": hash_of(scenario) % 7},
        "pipeline_meta": {
            "intent": intent,
            "voice_response": "Here it is.",
            "processing_time_ms": rng.randint(900, 52000),
        },
        "rating": None,
        "tags": [],
        "notes": "",
    }


def _rating(up: bool, number: int) -> dict[str, Any]:
    at = datetime(2026, 2, 2, tzinfo=UTC) + timedelta(seconds=number)
    return {"rating": "up" if up else "down", "tags": ["good"] if up else [], "notes": "", "rated_at": at.isoformat()}
