"""Every column of an event belongs to what it says, or to who said it, when, and what became of it."""

from __future__ import annotations

from rl.collect.feedback.content import CONTENT, say_the_same, statement
from rl.models import Feedback

ABOUT = {"id", "agent_id", "trace_id", "kind", "rater", "address", "source", "api_key_id", "user_id"}
ABOUT |= {"rated_at", "created_at"}
BECAME_OF_IT = {"is_current", "retracts_id", "training_set_id", "quarantine_id"}
FOLLOWS = {"value"}
"""From the scale and the raw value."""


def test_no_column_is_forgotten():
    columns = {field.attname for field in Feedback._meta.concrete_fields}
    assert columns == {*CONTENT, *ABOUT, *BECAME_OF_IT, *FOLLOWS}


def test_the_scale_is_part_of_what_a_rating_says():
    thumb, score = (Feedback(kind="rating", rater="anna", scale=scale, raw_value=1.0) for scale in ("thumb", "score"))
    assert not say_the_same(thumb, score)
    assert say_the_same(thumb, Feedback(kind="rating", rater="bert", scale="thumb", raw_value=1.0))
    assert statement(thumb) != statement(Feedback(kind="rating", rater="bert", scale="thumb", raw_value=1.0))
