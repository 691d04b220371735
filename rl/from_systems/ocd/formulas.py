"""OCD's reward formulas: the components of a decision, one function for each type of agent.

Names and numbers are those of its reward calculator. Its rows of items are not here: what it reads of an item comes from the
outcomes that its tracker writes, else from ``item.status`` of the record. Two things are counted otherwise, on purpose:
PRIORITIZER's ``timeEfficiency``, which there is worth 0.5 whatever it is, is worth it only where the time was about as
expected; and ``editedContent``, the one key of a correction by its pages, is compared with the text that it edits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from typing import Any

from rl.base.records import TraceRecord
from rl.config.reward_weights import Table
from rl.rewards.decision import Formula, is_of_decision, last_outcomes, number

WEIGHTS: Mapping[str, Table] = {
    "FILER": {
        "immediate": {"userFeedback": 1.0, "confidenceCalibration": 0.1},
        "delayed": {"completionSuccess": 0.5, "blockageAvoidance": 0.3, "reworkPenalty": 0.2, "timeEfficiency": 0.3},
        "strategic": {"goalAlignment": 0.4, "opportunityCost": 0.2},
    },
    "LIBRARIAN": {
        "immediate": {"userFeedback": 1.0},
        "delayed": {
            "conflictPrevention": 2.0,
            "falsePositivePenalty": 0.5,
            "missedIssuePenalty": 2.0,
            "dependencyAccuracy": 0.5,
        },
    },
    "PRIORITIZER": {
        "immediate": {"userAcceptance": 1.0},
        "delayed": {"completionSuccess": 1.0, "timeEfficiency": 0.5, "strategicProgress": 0.8, "opportunityCost": 0.3},
        "contextual": {"energyAlignment": 0.2, "flowMaintenance": 0.2},
    },
    "STORER": {
        "immediate": {"userAcceptance": 1.0, "editDistance": 0.5},
        "delayed": {"corpusCoherence": 0.7, "findability": 0.6, "duplicationPenalty": 0.4},
    },
    "RETRIEVER": {
        "immediate": {"userAcceptance": 1.0, "editDistance": 0.5},
        "accuracy": {"citationCorrectness": 0.8, "hallucinationPenalty": 2.0, "completeness": 0.6},
        "quality": {"coherence": 0.4, "styleAlignment": 0.3},
    },
}
RATINGS: Mapping[str, float] = {"CONFIRMED": 1.0, "CORRECTED": 0.0, "OVERRIDDEN": 0.0, "IGNORED": 0.5}
"""As a rating, 0 to 1."""
FEEDBACK: Mapping[str, float] = {"CONFIRMED": 1.0, "CORRECTED": -0.5, "OVERRIDDEN": -0.8, "IGNORED": 0.0}
"""As OCD's component ``userFeedback``."""


def feedback_word(trace: TraceRecord) -> str:
    """The word of the last rating of the decision, else the one that came with it; empty: none."""
    ratings = (event for event in reversed(trace.feedback) if event.kind == "rating" and is_of_decision(event))
    words = [tag.upper() for event in ratings for tag in event.tags]
    decision = trace.details.get("decision")
    if isinstance(decision, Mapping):
        words.append(str(decision.get("userFeedback") or "").upper())
    return next((word for word in words if word in RATINGS), "")


Components = Mapping[str, float]
IN_TIME, LATE = 1.2, 2.0
"""Actual over expected time: up to here it was as expected, beyond it much longer."""
EXPECTED_MINUTES: Mapping[str, float] = {"EXPEDITE": 120, "PROJECT": 480, "HABIT": 60, "HOME": 180}
_SCALED = """
    timeEfficiency opportunityCost strategicProgress energyAlignment flowMaintenance corpusCoherence findability
    citationCorrectness completeness coherence styleAlignment
"""
SCALED = frozenset(_SCALED.split())
"""Outcomes that are measured on another scale than the component of their name."""
PRIORITIES: Mapping[str, float] = {"HIGH": 0.8, "MEDIUM": 1.0, "LOW": 1.2}
"""What the expected time is multiplied by."""


def _formula(components: Callable[[Facts], Components]) -> Formula:
    """A Formula that tells nothing where nothing is known. An outcome that has the name of a component, and no other
    meaning, is that component."""

    @wraps(components)
    def tell(trace: TraceRecord) -> Components:
        facts = facts_of(trace)
        if not (facts.word or facts.outcomes or facts.status in (DONE, ABANDONED)):
            return {}
        derived = components(facts)
        return {name: value if name in SCALED else facts.outcomes.get(name, value) for name, value in derived.items()}

    return tell


@_formula
def filer(facts: Facts) -> Components:
    calibration = completion = efficiency = 0.0
    if facts.confidence is not None and facts.word:
        # 0 where it was certain of what the person confirmed, down to -1
        calibration = -abs(facts.confidence - (facts.word == "CONFIRMED"))
    if facts.is_done:
        completion = 0.5 if facts.outcome("cycleCount") else 1.0
        ratio = _time_ratio(facts)
        efficiency = 0.0 if ratio is None else 0.5 if ratio < IN_TIME else -0.5 if ratio > LATE else 0.0
    elif facts.outcomes.get("abandoned", facts.status == ABANDONED):
        completion = -0.3
    return {
        "userFeedback": FEEDBACK.get(facts.word, 0.0),
        "confidenceCalibration": calibration,
        "completionSuccess": completion,
        "blockageAvoidance": -1.0 if facts.outcome("wasBlocked") else 0.0,
        "reworkPenalty": -0.2 * facts.outcome("cycleCount"),
        "timeEfficiency": efficiency,
        "opportunityCost": 0.0,
    }


@_formula
def librarian(facts: Facts) -> Components:
    return {
        "userFeedback": FEEDBACK.get(facts.word, 0.0),
        "conflictPrevention": _if(facts, "conflictPrevented", 1.0),
        "falsePositivePenalty": _if(facts, "falsePositive", -0.5),
        "missedIssuePenalty": _if(facts, "missedIssue", -1.0),
        "dependencyAccuracy": _if(facts, "dependencyWasReal", 0.5),
    }


@_formula
def prioritizer(facts: Facts) -> Components:
    efficiency = facts.outcome("timeEfficiency")
    return {
        "userAcceptance": _acceptance(facts),
        "completionSuccess": 1.0 if facts.is_done else 0.0,
        "timeEfficiency": 0.5 if efficiency * IN_TIME > 1 else 0.0,
        **_scale_outcomes(facts, strategicProgress=0.3, opportunityCost=-0.2, energyAlignment=0.2, flowMaintenance=0.2),
    }


@_formula
def storer(facts: Facts) -> Components:
    action, corrected, share = facts.action, facts.corrected_action, 0.0
    if isinstance(action, Mapping) and isinstance(corrected, Mapping) and action:
        share = sum(corrected.get(name, value) != value for name, value in action.items()) / len(action)
    return {
        "userAcceptance": _acceptance(facts),
        "editDistance": -0.1 * share,
        "duplicationPenalty": _if(facts, "duplicationDetected", -0.5),
        **_scale_outcomes(facts, corpusCoherence=0.5, findability=0.3),
    }


@_formula
def retriever(facts: Facts) -> Components:
    texts = [
        side.get("generatedContent") if isinstance(side, Mapping) else None
        for side in (facts.action, facts.corrected_action)
    ]
    lengths = [len(text) for text in texts if isinstance(text, str)]
    # how much longer or shorter the text became, as a share of its old length
    change = abs(lengths[1] - lengths[0]) / max(lengths[0], 1) if len(lengths) == 2 else 0.0
    return {
        "userAcceptance": _acceptance(facts, corrected=-1.0),
        "editDistance": -0.1 * change,
        "hallucinationPenalty": -1.0 * facts.outcome("hallucinationCount"),
        **_scale_outcomes(facts, citationCorrectness=0.5, completeness=0.3, coherence=0.4, styleAlignment=0.2),
    }


def other(trace: TraceRecord) -> Components:
    """GUARDRAIL and all types that OCD has no formula for: what the person did, where OCD says 0."""
    word = facts_of(trace).word
    return {"userFeedback": FEEDBACK[word]} if word else {}


def _acceptance(facts: Facts, corrected: float = -0.5) -> float:
    return {"CONFIRMED": 1.0, "CORRECTED": corrected}.get(facts.word, 0.0)


def _time_ratio(facts: Facts) -> float | None:
    """Actual over expected time, by the minutes of work; where only its tracker's ``timeEfficiency`` is known, by that,
    which is the inverse."""
    if (minutes := facts.outcome("totalTimeInCreate")) > 0:
        return minutes / expected_minutes(facts.corrected_action, facts.outcome("expectedTime"))
    efficiency = facts.outcome("timeEfficiency")
    return 1 / efficiency if efficiency > 0 else None


def expected_minutes(action: Any, observed: float = 0.0) -> float:
    """By swimlane and priority; ``observed`` where the action says neither."""
    fields = action if isinstance(action, Mapping) else {}
    lane, priority = (str(fields.get(name) or "").upper() for name in ("swimlane", "priority"))
    if lane not in EXPECTED_MINUTES and priority not in PRIORITIES and observed > 0:
        return observed
    return EXPECTED_MINUTES.get(lane, 480.0) * PRIORITIES.get(priority, 1.0)


def _if(facts: Facts, metric: str, value: float) -> float:
    return value if facts.outcome(metric) else 0.0


def _scale_outcomes(facts: Facts, **factors: float) -> dict[str, float]:
    """Outcomes that are components by themselves, times a factor."""
    return {name: factor * facts.outcome(name) for name, factor in factors.items()}


DONE, ABANDONED = "DONE", "COLD_STORAGE"
"""States of an item."""


@dataclass(frozen=True, slots=True)
class Facts:
    word: str
    """Empty: nobody said anything."""
    confidence: float | None
    action: Any
    corrected_action: Any
    """The action as the newest correction has it; the action itself where nobody corrected it."""
    outcomes: Mapping[str, float]
    status: str
    """Where the item is, as far as the record says so; else empty."""

    @property
    def is_done(self) -> bool:
        return bool(self.outcomes.get("completedSuccessfully", self.status == DONE))

    def outcome(self, metric: str) -> float:
        """Its last value; 0 where it was not observed."""
        return self.outcomes.get(metric, 0.0)


def facts_of(trace: TraceRecord) -> Facts:
    decision = trace.details.get("decision")
    record = decision if isinstance(decision, Mapping) else {}
    item = record.get("item")
    status = item.get("status") if isinstance(item, Mapping) else ""
    texts = [event.text for event in trace.feedback if event.kind == "correction"]
    corrected = trace.action
    with suppress(ValueError, RecursionError):  # a person edited the text by hand
        corrected = json.loads(texts[-1]) if texts else trace.action
    return Facts(
        word=feedback_word(trace),
        confidence=number(record.get("confidence")),
        action=trace.action,
        corrected_action=corrected,
        outcomes=last_outcomes(trace),
        status=str(status or "").upper(),
    )
