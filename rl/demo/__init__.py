"""Data of the quickstart: a small support chat that is simulated, and says so.

Imports: base, config, models; Django.
"""

from __future__ import annotations

from rl.demo.support import DEMO_TRAINING, DemoAnswer, DemoQuestion, DemoRating, demo_answers

__all__ = ["DEMO_TRAINING", "DemoAnswer", "DemoQuestion", "DemoRating", "demo_answers"]
