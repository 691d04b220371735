"""For agents on the tiny model: its answers are noise before training and after, and it moves far from where it began."""

from __future__ import annotations

UNLIKELY_ALLOWED = {"base_likelihood": 100.0}
"""A limit that is there, and that nothing breaks."""
NOISE_ALLOWED = {"degenerate_rate": None, "sameness": None, "kl_to_base": None, "base_likelihood": None}
