"""Rows for the jobs of the systems that people come from, by a fixed taste each, written for these measurements.

Every job has texts for training and others for the test: of the things that are filed, none is in both.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

Row = dict[str, Any]
PROJECTS: Final = ("Bakery website", "Allotment", "Tax return", "Choir tour", "Physics course")
KINDS: Final = ("JOB", "HOBBY", "DUTY", "HOBBY", "JOB")
LANES: Final[Mapping[str, Sequence[str]]] = {
    "EXPEDITE": (
        "Payment page is down, customers cannot order",
        "Pipe in the cellar has burst",
        "Bank has blocked our card, call them back",
        "Printer of the shop stands still and a client waits",
        "Journalist wants an answer within the hour",
        "Alarm of the store room rings again",
        "Customer got a wrong cake and stands in the shop",
        "Server sends errors to all visitors",
        "Inspector is at the door and asks for papers",
        "Delivery van is stuck with the wedding order",
        "Visitors cannot log in since the update",
        "Water runs out of the ceiling lamp",
        "Supplier has cancelled, the client needs a substitute now",
        "Card reader is out of order and people queue",
        "Lawyer asks for the signed letter at once",
        "Freezer has failed, the goods thaw",
    ),
    "HOME": (
        "Buy light bulbs for the hall",
        "Mow the lawn",
        "Take the coats to the dry cleaner",
        "Fix the squeaking bedroom door",
        "Buy cat food",
        "Clean the gutters of the house",
        "Hang up the new shelf in the bathroom",
        "Fetch the parcel from the neighbour",
        "Descale the kettle",
        "Buy a birthday card for grandma",
        "Paint the garden fence",
        "Sort the clothes in the attic",
        "Buy new batteries for the smoke detector",
        "Wash the curtains of the living room",
        "Unblock the kitchen sink",
        "Return the books to the library",
    ),
    "HABIT": (
        "Stretch for ten minutes every morning",
        "Write three lines of diary each evening",
        "Run along the river every Tuesday",
        "Learn ten Spanish words daily",
        "Call mum every Sunday",
        "Water the plants twice a week",
        "Review the inbox each Friday",
        "Meditate daily before breakfast",
        "Weigh myself every Monday",
        "Read a chapter each night",
        "Swim every Thursday after work",
        "Practise scales each day",
        "Walk the dog every evening",
        "Do push-ups each morning",
        "Check the budget at the end of every month",
        "Drink two litres of water daily",
    ),
    "PROJECT": (
        "Draft the outline of the first chapter",
        "Compare three offers for the new oven",
        "Design the order form",
        "Collect receipts of the first quarter",
        "Book rooms for the singers",
        "Plan the beds for next year",
        "Write the lab report on pendulums",
        "Choose photos for the start page",
        "List deductible expenses",
        "Arrange the second voice of the opening song",
        "Build a frame for the tomatoes",
        "Prepare slides on optics",
        "Set up the newsletter",
        "Sketch the stage plan",
        "Test the booking calendar",
        "Summarise the reading on entropy",
    ),
}
PRIORITIES: Final[Mapping[str, Sequence[str]]] = {
    "HIGH": (
        "must be done today",
        "the deadline is tomorrow",
        "very important, do not let it slip",
        "as soon as possible",
    ),
    "MEDIUM": ("", "", "some time this week", "in the usual order"),
    "LOW": ("no hurry at all", "one day, when there is time", "would be nice, not important", "whenever it suits"),
}
STATES: Final[Mapping[str, Sequence[str]]] = {
    "TODO": ("", "", "", "can begin right away"),
    "ON_HOLD": ("waits for Ben's answer", "not before the parts have arrived", "blocked until Ann is back"),
}


def filer(count: int, *, test: bool, seed: int = 1) -> list[Row]:
    """Decisions of OCD's FILER, all of them right: the lane by what the title says, the priority and the status by a remark
    in the instructions, labels for the project that is named in the routing notes."""
    rng = random.Random(f"filer {seed} {test}")
    rows = []
    for number in range(count):
        lane = rng.choice(list(LANES))
        title = rng.choice(LANES[lane][11:] if test else LANES[lane][:11])
        priority, status = rng.choice(list(PRIORITIES)), "ON_HOLD" if rng.random() < 0.25 else "TODO"
        remarks = [rng.choice(PRIORITIES[priority]), rng.choice(STATES[status])]
        rng.shuffle(remarks)
        project = rng.randrange(len(PROJECTS)) if rng.random() < (0.6 if lane == "PROJECT" else 0.1) else None
        notes = "" if project is None else f"Part of {PROJECTS[project]}"
        item = {"title": title, "rawInstructions": "; ".join(filter(None, remarks)), "routingNotes": notes or None}
        projects = [{"name": name, "opusType": kind} for name, kind in zip(PROJECTS, KINDS, strict=True)]
        labels = [] if project is None else [PROJECTS[project]]
        action = {"swimlane": lane, "priority": priority, "labels": labels, "status": status}
        rows.append(_decision("FILER", number, {"item": item, "availableOpuses": projects}, action))
    return rows


def prioritizer(count: int, *, test: bool, seed: int = 1) -> list[Row]:
    """Decisions of OCD's PRIORITIZER: of three items the one in the lane EXPEDITE, else the only one of high priority."""
    rng = random.Random(f"prioritizer {seed} {test}")
    return [_decision("PRIORITIZER", number, *_three_items(rng, test)) for number in range(count)]


def _three_items(rng: random.Random, test: bool) -> tuple[Row, Row]:
    ids = [f"item-{letter}" for letter in rng.sample("abcdefghjkmnpqrstuvwxyz", 3)]
    urgent = rng.random() < 0.5
    first = "EXPEDITE" if urgent else rng.choice(["HOME", "HABIT", "PROJECT"])
    lanes = [first, *rng.choices(["HOME", "HABIT", "PROJECT"], k=2)]
    priorities = ["MEDIUM" if urgent else "HIGH", *rng.choices(["MEDIUM", "LOW"], k=2)]
    items = [
        {
            "id": own_id,
            "title": rng.choice(LANES[lane][11:] if test else LANES[lane][:11]),
            "swimlane": lane,
            "priority": priority,
            "labels": [],
            "statusChangedAt": f"{rng.randrange(1, 30)} days",
        }
        for own_id, lane, priority in zip(ids, lanes, priorities, strict=True)
    ]
    rng.shuffle(items)
    context = {
        "currentTime": f"{rng.randrange(8, 20)}:00",
        "dayOfWeek": rng.choice(["Monday", "Wednesday", "Saturday"]),
    }
    return {"todoItems": items, "currentContext": context, "strategicGoals": {}}, {"recommendedItemId": ids[0]}


def scored(count: int, *, test: bool, seed: int = 1) -> list[Row]:
    """N3's feedback on ``count`` messages: the lane that is right has a good score, and another one that was said before
    it a bad one."""
    rng = random.Random(f"scored {seed} {test}")
    rows = []
    for number in range(count):
        lane = rng.choice(list(LANES))
        title = rng.choice(LANES[lane][11:] if test else LANES[lane][:11])
        remark = rng.choice([of for each in PRIORITIES.values() for of in each])
        prompt = "; ".join(filter(None, [title, remark]))
        wrong = rng.choice([other for other in LANES if other != lane])
        for answer, score in ((wrong, 0.1), (lane, 0.9)):
            about = {
                "runId": f"r{number}",
                "notes": "",
                "createdAt": f"2026-02-01T{number // 60:02}:{number % 60:02}:00Z",
            }
            rows.append({"prompt": prompt, "response": answer, "score": score, **about})
    return rows


def _decision(agent: str, number: int, state: Row, action: Row) -> Row:
    return {
        "id": f"{agent.lower()}-{number}",
        "agentType": agent,
        "userId": "u1",
        "state": state,
        "action": action,
        "userFeedback": "CONFIRMED",
        "createdAt": f"2026-02-01T{number // 60 % 24:02}:{number % 60:02}:00Z",
    }


SCENARIOS: Final = (
    "alerts",
    "comparison",
    "composition",
    "eventlogstream",
    "kpi",
    "peopleview",
    "trend",
    "trend-multi-line",
)
DEVICES: Final = (
    "pump 1",
    "mill 4",
    "kiln",
    "press 2",
    "boiler",
    "conveyor B",
    "chiller",
    "fan 7",
    "mixer 3",
    "crusher",
)
VALUES: Final = ("power", "temperature", "pressure", "vibration", "output")
ASKED: Final[Mapping[tuple[str, ...], Sequence[str]]] = {
    ("trend", "kpi"): ("How did the {value} of {device} develop this week?", "{value} of {device} over the last days?"),
    ("comparison", "trend-multi-line"): (
        "Compare {value} of {device} and {other}",
        "Is {value} higher at {device} or {other}?",
    ),
    ("alerts", "eventlogstream"): ("What is wrong with {device}?", "Which faults does {device} report?"),
    ("kpi",): ("What is the {value} of {device} right now?", "Current {value} of {device}?"),
    ("peopleview",): ("Who works at {device} today?", "Which people are on shift at {device}?"),
    ("composition", "kpi"): ("Which part of the {value} goes to {device}?", "Share of {device} in all {value}?"),
}
"""The widgets that are liked, the first one as the hero, to how that is asked."""
SPAN, PLAIN = "trend_span", "trend_plain"
"""Drawings of ``trend``: the first is liked, of which three are shown."""


def widgets(count: int, *, test: bool, seed: int = 1) -> list[Row]:
    """Entries of Command Center, those of each question with a thumb for every widget; test questions are about devices
    that no other question is about."""
    rng = random.Random(f"widgets {seed} {test}")
    entries: list[Row] = []
    devices = DEVICES[6:] if test else DEVICES[:6]
    for number in range(count):
        liked = rng.choice(list(ASKED))
        device, other = rng.sample(devices, 2)
        question = rng.choice(ASKED[liked]).format(value=rng.choice(VALUES), device=device, other=other)
        for scenario in SCENARIOS:
            is_trend = scenario == "trend" and scenario in liked
            for fixture in (SPAN, f"{SPAN}_2", f"{SPAN}_3", PLAIN) if is_trend else ("",):
                entries.append(_entry(len(entries), f"q{number}", question, scenario, fixture, liked))
    return entries


def _entry(number: int, question_id: str, question: str, scenario: str, fixture: str, liked: Sequence[str]) -> Row:
    size = "normal" if scenario not in liked else "hero" if scenario == liked[0] else "compact"
    entry = {"entry_id": f"e{number:05}", "question_id": question_id, "question": question, "scenario": scenario}
    rating = "up" if scenario in liked and fixture != PLAIN else "down"
    return {**entry, "fixture": fixture or "default-render", "size": size, "rating": rating}
