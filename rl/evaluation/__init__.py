"""How good a version is: scores of held-out pairs, statistics on them, and the gate that decides from both."""

from __future__ import annotations

SCORERS: dict[str, str] = {
    "preference": "rl.evaluation.scoring",
}
"""Modules with ``score_versions``, imported on first use because they bring torch along."""
