"""Answers that several people compared, in the forms of the tools that they did it with; the words are made up."""

from typing import Any

import pytest

from rl.collect.importers import trl
from tests.collect.importers.reading import lines, reason, taken

QUESTION, GOOD, BAD = "Name a river.", "The Elbe.", "A hill."
SHOWN = {"instruction": QUESTION, "response1": GOOD, "response2": BAD}
ANN, BEN, CAY = "argilla:ann", "argilla:ben", "argilla:cay"

FORMS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "PandaLM": (
        {**SHOWN, "input": "", "annotator1": 1, "annotator2": 2, "annotator3": 0, "cmp_key": "x_y"},
        {"annotator1": "left", "annotator2": "right", "annotator3": "tie"},
    ),
    "Argilla, nested": (
        {
            "id": "7",
            "status": "completed",
            "fields": {"prompt": QUESTION, "response_a": GOOD, "response_b": BAD},
            "responses": {
                "better": [
                    {"value": "response_a", "user_id": "ann"},
                    {"value": "B", "user_id": "ben"},
                    {"value": "tie", "user_id": "cay", "status": "draft"},
                ],
                "quality": [{"value": 5, "user_id": "ann"}],
            },
            "suggestions": {},
        },
        {ANN: "left", BEN: "right"},
    ),
    "Argilla, flat": (
        {
            "prompt": QUESTION,
            "response1": GOOD,
            "response2": BAD,
            "preference.responses": [2, 1, 1],
            "preference.responses.users": ["ann", "ben", "cay"],
            "preference.responses.status": ["submitted", "submitted", "discarded"],
            "comment.responses": ["A or B?"],
        },
        {ANN: "right", BEN: "left"},
    ),
    "Argilla, ranked": (
        {
            "fields": {"prompt": QUESTION, "response_1": GOOD, "response_2": BAD},
            "responses": {
                "order": [
                    {
                        "value": [{"value": "response-1", "rank": 1}, {"value": "response-2", "rank": 2}],
                        "user_id": "ann",
                    },
                    {
                        "value": [{"value": "response_1", "rank": 1}, {"value": "response_2", "rank": 1}],
                        "user_id": "ben",
                    },
                ]
            },
        },
        {ANN: "left", BEN: "tie"},
    ),
    "Label Studio": (
        {
            "id": 1,
            "data": {"prompt": QUESTION, "answer1": GOOD, "answer2": BAD},
            "annotations": [
                {"completed_by": 4, "result": [{"type": "pairwise", "value": {"selected": "left"}}]},
                {
                    "completed_by": {"id": 5, "email": "ben@shop.example"},
                    "result": [{"type": "pairwise", "value": {"selected": "right"}}],
                },
                {"completed_by": 6, "result": [{"type": "choices", "value": {"choices": ["Neither"]}}]},
                {
                    "completed_by": 7,
                    "was_cancelled": True,
                    "result": [{"type": "pairwise", "value": {"selected": "left"}}],
                },
            ],
            "project": 3,
        },
        {"label-studio:4": "left", "label-studio:ben@shop.example": "right", "label-studio:6": "both_bad"},
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_pick_is_stored_with_who_made_it(form: str, tmp_path):
    row, picks = FORMS[form]
    right, left = taken(trl, lines(tmp_path, row))
    assert (left.response, right.response) == (GOOD, BAD)
    assert left.prompt[-1]["content"] == QUESTION
    assert {said.rater: said.choice for said in left.feedback} == picks
    assert {said.other_external_id for said in left.feedback} == {right.external_id}


@pytest.mark.parametrize("column", ["rater", "annotator", "judge"])
def test_a_column_names_who_chose_or_rated(column: str, tmp_path):
    pair = {"prompt": QUESTION, "chosen": GOOD, "rejected": BAD, column: "ann"}
    assert [said.rater for said in taken(trl, lines(tmp_path, pair))[1].feedback] == ["ann"]
    rated = {"prompt": QUESTION, "completion": GOOD, "label": True, column: 7}
    assert [said.rater for said in taken(trl, lines(tmp_path, rated))[0].feedback] == ["7"]
    duel = {"prompt": QUESTION, "response_a": GOOD, "response_b": BAD, "winner": "b", column: "ann"}
    assert [said.rater for said in taken(trl, lines(tmp_path, duel))[1].feedback] == ["ann"]


def test_two_against_one_are_two_votes_and_one(tmp_path):
    better = {"prompt": QUESTION, "chosen": GOOD, "rejected": BAD}
    worse = {"prompt": QUESTION, "chosen": BAD, "rejected": GOOD}
    rows = [{**better, "rater": "ann"}, {**better, "rater": "ben"}, {**worse, "rater": "cay"}]
    traces = taken(trl, lines(tmp_path, *rows))
    assert [said.rater for trace in traces for said in trace.feedback] == ["ann", "ben", "cay"]
    assert len({trace.external_id for trace in traces}) == 2


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({**SHOWN, "annotator1": 3}, "a pick must be response1, response2, left, right or tie, not 3"),
        ({"data": {"prompt": QUESTION}, "annotations": []}, "has no answer"),
        ({"data": {**SHOWN, "x1": "", "x2": ""}, "annotations": []}, "2 pairs of columns may be the two answers"),
        ({"data": SHOWN, "annotations": []}, "nobody has compared the two answers"),
        (
            {"data": SHOWN, "annotations": [7, {"result": 3}, {"result": [{"type": "pairwise", "value": 1}]}]},
            "nobody has",
        ),
        ({"fields": SHOWN, "responses": {"q": [{"value": [{"value": "x", "rank": 1}]}]}}, "a ranking must give"),
        ({"fields": SHOWN, "responses": {"q": 5}}, "nobody has compared the two answers"),
        ({"fields": SHOWN, "responses": {"q": [], "r": []}}, "of the questions q, r not one asks which is better"),
    ],
)
def test_a_row_that_says_no_pick_is_refused_with_its_reason(row: dict[str, Any], problem: str, tmp_path):
    good = {**SHOWN, "annotator1": 1}
    assert problem in reason(trl, tmp_path, row, good)


def test_one_answer_with_questions_about_it_is_read_as_before(tmp_path):
    row = {"prompt": QUESTION, "response": GOOD, "tone.responses": [4], "length.responses": [2]}
    assert [answer.response for answer in taken(trl, lines(tmp_path, row))] == [GOOD]
