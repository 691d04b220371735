"""Ratings without what they are about."""

from __future__ import annotations

from typing import NamedTuple


class Vote(NamedTuple):
    """Whether somebody is for something: an answer, or a row of a training set."""

    rater: str
    """A pseudonym."""
    agrees: bool
    about: str = ""
    """``chosen`` or ``rejected``: a rating of that answer of a pair alone. Empty: of the whole."""


class AnswerRating(NamedTuple):
    feedback_id: int
    value: float
    """0 to 1."""
    rater: str = ""
    """A pseudonym; empty where nobody knows."""
