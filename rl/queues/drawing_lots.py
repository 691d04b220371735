"""Chance that can be repeated: the same queue, rater and number always draw the same."""

from __future__ import annotations

import hashlib

from rl.models import RatingQueue


def draw(queue: RatingQueue, rater: str, what: object) -> float:
    """From 0 to 1, 1 excluded."""
    digest = hashlib.sha256(f"{queue.pk}:{rater}:{what}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64
