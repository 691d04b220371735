"""OCD's weights of reward components, by type of agent and time scale."""

from __future__ import annotations

from collections.abc import Mapping

from rl.config.reward_weights import Table

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
        "delayed": {
            "completionSuccess": 1.0,
            "timeEfficiency": 0.5,
            "strategicProgress": 0.8,
            "opportunityCost": 0.3,
        },
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
