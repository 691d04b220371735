from datetime import UTC, datetime

import pytest

from rl.from_systems.n3 import feedback_file as n3
from tests.collect.importers.reading import document, lines, one, reason, taken

GOOD = {"prompt": "Where?", "response": "Here.", "score": 0.8, "runId": "r1", "createdAt": "2026-02-01T12:00:00Z"}


def test_a_score_is_a_rating_of_an_answer(tmp_path):
    trace = one(n3, tmp_path, {**GOOD, "notes": "Nice."})
    (rating,) = trace.feedback
    assert (trace.prompt, trace.response) == (({"role": "user", "content": "Where?"},), "Here.")
    assert (trace.details, trace.occurred_at) == ({"runId": "r1"}, datetime(2026, 2, 1, 12, tzinfo=UTC))
    assert (rating.scale, rating.value, rating.notes, rating.rated_at) == ("score", 0.8, "Nice.", trace.occurred_at)


def test_the_same_answer_scored_again_is_the_same_answer(tmp_path):
    again = {**GOOD, "score": 0.1, "createdAt": "2026-03-01T12:00:00Z"}
    first, second, other = taken(n3, lines(tmp_path, GOOD, again, {**GOOD, "runId": "r2"}))
    assert first.external_id == second.external_id != other.external_id


def test_a_long_note_is_cut(tmp_path):
    assert len(one(n3, tmp_path, {**GOOD, "notes": "x" * 9000}).feedback[0].notes) == 4000


def test_it_reads_the_lists_that_the_api_answers_with(tmp_path):
    assert len(taken(n3, document(tmp_path, {"total": 1, "feedback": [GOOD]}))) == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"prompt": " "}, "prompt is missing or empty"),
        ({"response": None}, "response is missing or empty"),
        ({"response": ["x"]}, "response must be text"),
        ({"score": 1.5}, "score must be a number from 0 to 1"),
        ({"score": None}, "score must be a number from 0 to 1"),
        ({"score": True}, "score must be a number"),
        ({"runId": "x" * 300}, "runId is longer than"),
        ({"createdAt": "soon"}, "createdAt must be a time"),
    ],
)
def test_a_wrong_line_is_rejected_with_the_field(tmp_path, change, why):
    assert reason(n3, tmp_path, {**GOOD, **change}, GOOD).startswith(why)
