"""For agents on the tiny model: its answers are noise before training and after, and it moves far from where it began."""

from __future__ import annotations

NOISE_ALLOWED = {"degenerate_rate": None, "kl_to_base": None, "base_likelihood": None}
