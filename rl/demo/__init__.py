"""Data of the quickstart: messages, questions and people that are simulated, and say so.

Imports: base, config, models; Django."""

# ruff: noqa: F401  for others to import from here
from rl.demo.support import DEMO_TRAINING, demo_answers
