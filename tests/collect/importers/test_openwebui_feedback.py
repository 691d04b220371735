import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from rl.collect.importers import openwebui_feedback
from tests.collect.importers.reading import document, one, reason, taken

MESSAGES = {
    "m1": {"id": "m1", "parentId": None, "childrenIds": ["m2", "m3"], "role": "user", "content": "Hi"},
    "m2": {
        "id": "m2",
        "parentId": "m1",
        "role": "assistant",
        "content": "Hello.",
        "model": "tiny",
        "timestamp": 1769947200,
    },
    "m3": {"id": "m3", "parentId": "m1", "role": "assistant", "content": "Hm.", "model": "other"},
    "m4": {"id": "m4", "parentId": "m2", "role": "user", "content": "Bye"},
    "m5": {
        "id": "m5",
        "parentId": "m4",
        "role": "assistant",
        "content": "Bye.",
        "model": "tiny",
        "usage": {"prompt_tokens": 9, "completion_tokens": 2},
    },
}


def feedback(message_id: str = "m2", **data: Any) -> dict[str, Any]:
    return {
        "id": "f1",
        "user_id": "u1",
        "version": 0,
        "type": "rating",
        "created_at": 1769947300,
        "updated_at": 1769947400,
        "data": {
            "rating": 1,
            "model_id": "tiny",
            "reason": "accurate_information",
            "comment": "Nice.",
            "tags": ["greeting"],
            **data,
        },
        "meta": {"model_id": "tiny", "message_id": message_id, "message_index": 1, "chat_id": "c1"},
        "snapshot": {"chat": {"id": "c1", "title": "x", "chat": {"history": {"messages": copy.deepcopy(MESSAGES)}}}},
    }


def test_a_rated_message_is_an_answer_with_a_thumb(tmp_path):
    trace = one(openwebui_feedback, tmp_path, feedback())
    assert (trace.external_id, trace.session_id, trace.model_version) == ("m2", "c1", "tiny")
    assert (trace.prompt, trace.response) == (({"role": "user", "content": "Hi"},), "Hello.")
    assert trace.occurred_at == datetime(2026, 2, 1, 12, tzinfo=UTC)
    (rating,) = trace.feedback
    assert (rating.scale, rating.value, rating.notes) == ("thumb", 1, "Nice.")
    assert rating.tags == ("greeting", "accurate_information")
    assert (rating.rater, rating.rated_at) == ("openwebui:u1", datetime(2026, 2, 1, 12, 3, 20, tzinfo=UTC))


def test_the_prompt_is_the_way_to_the_message(tmp_path):
    row = feedback("m5")
    row["snapshot"]["chat"]["chat"]["params"] = {"system": "Be brief."}
    trace = one(openwebui_feedback, tmp_path, row)
    assert [message["content"] for message in trace.prompt] == ["Be brief.", "Hi", "Hello.", "Bye"]
    assert (trace.tokens_in, trace.tokens_out) == (9, 2)


@pytest.mark.parametrize(
    ("rating", "score", "scale", "value"),
    [(1, 10, "score", 1), (-1, 1, "score", 0), ("1", 7, "score", 2 / 3), (1, 2, "thumb", 1), (-1, None, "thumb", 0)],
)
def test_the_fine_score_counts_unless_it_contradicts_the_thumb(tmp_path, rating, score, scale, value):
    (said,) = one(openwebui_feedback, tmp_path, feedback(rating=rating, details={"rating": score})).feedback
    assert (said.scale, said.value) == (scale, pytest.approx(value))


@pytest.mark.parametrize(("rating", "choice"), [(1, "left"), (-1, "right")])
def test_models_side_by_side_are_compared(tmp_path, rating, choice):
    rival, rated = taken(openwebui_feedback, document(tmp_path, [feedback(rating=rating, sibling_model_ids=["other"])]))
    assert (rival.response, rival.feedback) == ("Hm.", ())
    assert (rated.feedback[1].choice, rated.feedback[1].other_external_id) == (choice, "m3")
    assert rival.prompt == rated.prompt


def rated(message_id: str, rating: int, user: str = "u1", **data: Any) -> dict[str, Any]:
    return {**feedback(message_id, rating=rating, **data), "user_id": user}


def comparisons(folder: Any, *rows: dict[str, Any]) -> list[tuple[str, str]]:
    """Which answer was preferred to which, whoever was rated."""
    found = taken(openwebui_feedback, document(folder, list(rows)))
    stated = [(trace.external_id, said) for trace in found for said in trace.feedback if said.kind == "comparison"]
    return [(a, said.other_external_id) if said.choice == "left" else (said.other_external_id, a) for a, said in stated]


@pytest.mark.parametrize("thumb", [1, -1])
def test_who_gave_both_the_same_thumb_compared_nothing(tmp_path, thumb):
    second = rated("m2", thumb, sibling_model_ids=["other"])
    assert comparisons(tmp_path, rated("m3", thumb), second) == []
    assert comparisons(tmp_path, second, rated("m3", thumb)) == []
    remembered = changed(rated("m2", thumb, sibling_model_ids=["other"]), "m3", annotation={"rating": thumb})
    assert comparisons(tmp_path, remembered) == []


def test_another_thumb_or_that_of_another_person_is_a_comparison(tmp_path):
    second = rated("m2", 1, sibling_model_ids=["other"])
    assert comparisons(tmp_path, rated("m3", -1), second) == [("m2", "m3")]
    assert comparisons(tmp_path, rated("m3", 1, user="u2"), second) == [("m2", "m3")]
    assert comparisons(tmp_path, rated("m3", 1), rated("m2", -1, sibling_model_ids=["other"])) == [("m3", "m2")]


@pytest.mark.parametrize("content", ["", " ", None, '<details type="reasoning">\n> Hm'])
def test_a_rival_that_said_nothing_costs_the_rating_nothing(tmp_path, content):
    row = changed(feedback(sibling_model_ids=["other"]), "m3", content=content)
    (rated,) = taken(openwebui_feedback, document(tmp_path, [row]))
    assert [said.kind for said in rated.feedback] == ["rating"]


def test_a_duel_in_the_arena_is_a_comparison_of_those_that_answered(tmp_path):
    row = feedback(model_id="llama", sibling_model_ids=["qwen"])
    for message_id, model in (("m2", "llama"), ("m3", "qwen")):
        changed(row, message_id, model="arena-model", selectedModelId=model, arena=True)
    rival, rated = taken(openwebui_feedback, document(tmp_path, [row]))
    assert (rated.model_version, rival.model_version) == ("llama", "qwen")
    assert rated.feedback[1].other_external_id == rival.external_id == "m3"


@pytest.mark.parametrize("depth", ["snapshot", "chat"])
def test_the_history_is_found_where_older_versions_put_it(tmp_path, depth):
    row = feedback()
    history = {"messages": list(MESSAGES.values())}
    row["snapshot"] = {"history": history} if depth == "snapshot" else {"chat": {"history": history}}
    assert one(openwebui_feedback, tmp_path, row).response == "Hello."


def changed(row: dict[str, Any], message_id: str, **fields: Any) -> dict[str, Any]:
    row["snapshot"]["chat"]["chat"]["history"]["messages"][message_id].update(fields)
    return row


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({**feedback(), "type": "note"}, "is not a rating"),
        (feedback(rating=0), "data.rating must be 1 or -1"),
        (feedback("nowhere"), "the snapshot does not hold the rated message"),
        (feedback("m1"), "the rated message is not an answer"),
        ({**feedback(), "snapshot": None}, "the snapshot holds no history"),
        ({**feedback(), "data": 7}, "data must be an object"),
        (changed(feedback(), "m2", parentId="gone"), "the messages before the rated one"),
        (changed(feedback("m5"), "m4", parentId="m5"), "the chat has more than"),
        (changed(feedback(), "m2", content=""), "the rated message is not an answer"),
    ],
)
def test_a_wrong_record_is_rejected_with_the_field(tmp_path, row, why):
    assert reason(openwebui_feedback, tmp_path, row, feedback()).startswith(why)
