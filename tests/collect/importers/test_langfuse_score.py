from datetime import UTC, datetime
from typing import Any

import pytest

from rl.base.errors import BadFile, UsageError
from rl.collect.importers import langfuse_score
from rl.collect.traces.imported import ImportedRemark, Rejected
from tests.collect.importers.reading import document, lines, one, reason, said, taken

TRACE = {
    "id": "t1",
    "timestamp": "2026-02-01 12:00:00.000000",
    "name": "chat",
    "user_id": "u1",
    "session_id": "s1",
    "tags": ["web"],
    "input": "Where is it?",
    "output": "On its way.",
    "latency": 1.5,
    "project_id": "p",
}
SCORE = {
    "id": "x1",
    "timestamp": "2026-02-01T12:05:00Z",
    "traceId": "t1",
    "observationId": None,
    "name": "user-feedback",
    "value": 1,
    "dataType": "BOOLEAN",
    "source": "API",
    "comment": "Thanks.",
}


NUMBER = {"dataType": "NUMERIC"}


def scored(folder: Any, *changes: dict[str, Any]) -> list[Any]:
    remarks = taken(langfuse_score, lines(folder, *({**SCORE, **change} for change in changes)))
    return [said for remark in remarks for said in remark.feedback]


def test_a_trace_is_an_answer(tmp_path):
    trace = one(langfuse_score, tmp_path, TRACE)
    assert (trace.external_id, trace.session_id, trace.duration_ms) == ("t1", "s1", 1500)
    assert (trace.prompt, trace.response) == (({"role": "user", "content": "Where is it?"},), "On its way.")
    assert trace.occurred_at == datetime(2026, 2, 1, 12, tzinfo=UTC)
    assert trace.details == {"name": "chat", "userId": "u1", "tags": ["web"]}


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ([said("system", "Brief."), said("user", "Hi")], said("assistant", "Hello.")),
        ({"messages": [said("system", "Brief."), said("user", "Hi")]}, {"content": "Hello."}),
        ('[{"role": "system", "content": "Brief."}, {"role": "user", "content": "Hi"}]', '{"content": "Hello."}'),
        ([said("system", "Brief."), said("user", "Hi")], [said("assistant", "Hello.")]),
        ([said("system", "Brief."), said("user", "Hi")], "Hello."),
    ],
)
def test_messages_are_messages_however_they_are_packed(tmp_path, given, made):
    trace = one(langfuse_score, tmp_path, {**TRACE, "input": given, "output": made})
    assert [message["content"] for message in trace.prompt] == ["Brief.", "Hi"]
    assert trace.response == "Hello."


def test_other_json_is_kept_as_text(tmp_path):
    trace = one(langfuse_score, tmp_path, {**TRACE, "input": {"question": "Hi"}, "output": {"answer": 7}})
    assert (trace.prompt[0]["content"], trace.response) == ('{"question": "Hi"}', '{"answer": 7}')


def test_a_generation_is_an_answer_and_other_observations_are_none(tmp_path):
    made = {
        **TRACE,
        "id": "o1",
        "trace_id": "t1",
        "type": "GENERATION",
        "provided_model_name": "gpt-4o",
        "usage_details": {"input": 12, "output": 5},
        "total_cost": 0.01,
        "start_time": "2026-02-01 12:00:00",
        "end_time": "2026-02-01 12:00:02",
    }
    trace = one(langfuse_score, tmp_path, made)
    assert (trace.model_version, trace.tokens_in, trace.tokens_out, trace.cost) == ("gpt-4o", 12, 5, 0.01)
    assert (trace.external_id, trace.duration_ms) == ("o1", 2000)
    spans = [{**made, "type": "SPAN"}] * 30
    found = list(langfuse_score.read(lines(tmp_path, *spans, made)))
    assert sum(isinstance(each, Rejected) for each in found) == 30


def test_the_scores_of_a_trace_are_its_feedback(tmp_path):
    listed = one(langfuse_score, tmp_path, {**TRACE, "scores": [SCORE, {**SCORE, "name": "note", "dataType": "TEXT"}]})
    assert [(said.kind, said.value, said.notes) for said in listed.feedback] == [("rating", 1, "Thanks.")]
    columns = one(langfuse_score, tmp_path, {**TRACE, "user-feedback": [0, 1], "tone": ["rude"], "cost": [0.5]})
    assert [(said.kind, said.value) for said in columns.feedback] == [("rating", 0), ("rating", 1), ("outcome", 0.5)]
    assert len({said.rater for said in columns.feedback}) == 3


def test_a_trace_downloaded_from_its_page_is_read(tmp_path):
    whole = {"trace": TRACE, "observations": [], "scores": [SCORE]}
    (trace,) = taken(langfuse_score, document(tmp_path, whole))
    assert (trace.external_id, len(trace.feedback)) == ("t1", 1)


def test_tables_are_read(tmp_path):
    path = tmp_path / "traces.csv"
    path.write_text(
        '"id","timestamp","input","output","tags","user-feedback","inputTokens"\n'
        '"t1","2026-02-01T12:00:00.000Z","""Hi""","{""role"":""assistant"",""content"":""Hello.""}","[""web""]","[0]","12"\n'
    )
    (trace,) = taken(langfuse_score, path)
    assert (trace.prompt[0]["content"], trace.response, trace.tokens_in) == ("Hi", "Hello.", 12)
    assert [said.value for said in trace.feedback] == [0]


def test_a_score_alone_looks_for_its_answer(tmp_path):
    remark = one(langfuse_score, tmp_path, {**SCORE, "observationId": "o1"})
    assert isinstance(remark, ImportedRemark)
    assert remark.external_ids == ("o1", "t1")
    assert remark.feedback[0].rated_at == datetime(2026, 2, 1, 12, 5, tzinfo=UTC)


def test_the_api_answers_with_scores_under_data(tmp_path):
    scores = {"data": [{**SCORE, "trace": {"userId": "u1", "tags": []}}], "meta": {"page": 1}}
    assert len(taken(langfuse_score, document(tmp_path, scores))) == 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 1], [0, 1]),
        ([0.2, 0.9], [0.2, 0.9]),
        ([-1, 1], [0, 1]),
        ([1, 3, 5], [0, 0.5, 1]),
        (["1", "0"], [1, 0]),
    ],
)
def test_what_a_rating_means_shows_in_the_whole_file(tmp_path, values, expected):
    found = scored(tmp_path, *({**NUMBER, "value": value, "traceId": f"t{value}"} for value in values))
    assert [(said.kind, said.value) for said in found] == [("rating", value) for value in expected]


@pytest.mark.parametrize("names", [("user_feedback", "User-Feedback"), ("userFeedback", "user feedback")])
def test_a_name_in_two_spellings_is_one_rater(tmp_path, names):
    said = scored(tmp_path, *({"name": name, "value": 0} for name in names))
    assert len({one.rater for one in said}) == 1
    figures = scored(tmp_path, *({"name": name.replace("eedback", "oo"), "value": 3} for name in names))
    assert len({one.rater for one in figures}) == 1


@pytest.mark.parametrize("name", ["user-rating", "user-feedback", "quality", "helpful"])
def test_a_scale_of_which_all_values_are_1_must_be_told(tmp_path, name):
    path = lines(tmp_path, *({**SCORE, **NUMBER, "name": name, "traceId": f"t{n}"} for n in range(3)))
    with pytest.raises(
        BadFile, match=f"all values of the score '{name}' are 1: the best of 0 to 1, or the worst of 1 to 5"
    ):
        list(langfuse_score.read(path))
    for scale, value in ((f"{name}=1..5", 0), ("0..1", 1), ("other=1..5", None)):
        scales = langfuse_score.read_scales([scale])
        if value is None:
            with pytest.raises(BadFile):
                list(langfuse_score.read(path, scales))
        else:
            found = [remark.feedback[0].value for remark in langfuse_score.read(path, scales)]
            assert found == [value] * 3


def test_scores_that_are_named_after_a_thumb_need_no_scale(tmp_path):
    assert [said.value for said in scored(tmp_path, {**NUMBER, "name": "thumbs-up"})] == [1]


def test_a_told_scale_holds_whatever_the_values_look_like(tmp_path):
    rows = [{**SCORE, **NUMBER, "value": value, "traceId": f"t{value}"} for value in (2, 4, 12)]
    found = list(langfuse_score.read(lines(tmp_path, *rows), langfuse_score.read_scales(["user_feedback=0..10"])))
    assert [remark.feedback[0].value for remark in found[:2]] == [0.2, 0.4]
    assert found[2].reason == "the value 12 is outside the scale 0..10"


@pytest.mark.parametrize("scale", ["5", "5..1", "1..1", "a..b", "x=1", "1..", "1..5..6"])
def test_a_scale_that_is_none_is_refused(scale):
    with pytest.raises(UsageError, match="--scale must be LOW..HIGH or NAME=LOW..HIGH"):
        langfuse_score.read_scales([scale])


@pytest.mark.parametrize("place", ["value", "stringValue"])
@pytest.mark.parametrize(
    ("word", "thumb"),
    [("👍", 1), ("👍🏿", 1), ("❤️", 1), ("thumbs_up", 1), ("Thumbs Up!", 1), ("upvote", 1), ("True", 1), ("liked", 1)]
    + [("👎", 0), ("thumbs_down", 0), ("Not helpful", 0), ("dislike", 0), ("FALSE", 0), ("not_useful", 0)],
)
def test_words_and_pictures_are_thumbs_wherever_they_stand(tmp_path, place, word, thumb):
    (said,) = scored(tmp_path, {"dataType": "CATEGORICAL", "value": None, place: word})
    assert (said.kind, said.scale, said.value) == ("rating", "thumb", thumb)
    (trace,) = taken(langfuse_score, lines(tmp_path, {**TRACE, "user-feedback": [word]}))
    assert [said.value for said in trace.feedback] == [thumb]


def test_what_does_not_look_like_a_rating_is_an_outcome(tmp_path):
    found = scored(
        tmp_path,
        {**NUMBER, "value": 40},
        {**NUMBER, "value": 90},
        {"name": "latency", "value": 0.4},
        {"name": "quality", "source": "EVAL"},
    )
    assert {said.kind for said in found} == {"outcome"}
    assert [(said.metric, said.value) for said in found] == [
        ("user-feedback", 40),
        ("user-feedback", 90),
        ("latency", 0.4),
        ("quality", 1),
    ]
    assert {said.rater.split(":")[0] for said in found} == {"system"}


def test_words_for_good_and_bad_are_thumbs(tmp_path):
    word = {"dataType": "CATEGORICAL", "source": "ANNOTATION", "authorUserName": "Ann"}
    found = scored(
        tmp_path,
        {**word, "value": 7, "stringValue": "Thumbs up"},
        {**word, "value": 0, "stringValue": "negative"},
        {**word, "value": 3, "stringValue": "blue"},
        {"dataType": "BOOLEAN", "value": 0},
    )
    assert [(said.kind, said.value) for said in found] == [("rating", 1), ("rating", 0), ("outcome", 3), ("rating", 0)]
    assert found[0].rater == "langfuse:Ann:userfeedback"
    assert found[0].tags == ("user-feedback", "Thumbs up")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"traceId": None}, "a score of a session"),
        ({"value": "high"}, "a score without a number, and no word"),
        ({"value": [1]}, "value must be text"),
        ({"name": None}, "has neither input and output nor a score"),
        ({"dataType": "TEXT", "stringValue": "long"}, "a score without a number"),
        ({"timestamp": "soon"}, "timestamp must be a time"),
        ({"traceId": "x" * 300}, "traceId is longer than"),
        ({"input": "x"}, "has no output"),
        ({"input": "x", "output": "y", "id": ""}, "id is missing"),
        ({"input": "x", "output": "y", "scores": [7]}, "scores must be objects"),
    ],
)
def test_a_wrong_line_is_rejected_with_the_field(tmp_path, change, why):
    assert reason(langfuse_score, tmp_path, {**SCORE, **change}, SCORE).startswith(why)
