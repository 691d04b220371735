from __future__ import annotations

from typing import Any

import pytest

from rl.collect.otlp import PROTOBUF, decode
from rl.collect.otlp.mapping import NAME, evaluations
from rl.collect.traces.imported import ImportedFeedback
from tests.collect.otlp.make_spans import body, evaluation, span


def read(**more: Any) -> list[tuple[str, ImportedFeedback]]:
    (found,) = decode(body(span(**more)), PROTOBUF)
    return list(evaluations(found))


def only(given: dict[str, Any]) -> ImportedFeedback:
    ((_, said),) = read(events=[(NAME, given)])
    return said


def test_a_score_from_0_to_1_is_a_rating_of_the_program_that_gave_it():
    said = only(evaluation("Relevance", 0.75, gen_ai__evaluation__explanation="to the point"))
    assert (said.kind, said.scale, said.value, said.rater) == ("rating", "score", 0.75, "system:Relevance")
    assert (said.tags, said.notes) == ((), "to the point")
    assert said.rated_at.isoformat() == "2026-06-01T12:00:00+00:00"


@pytest.mark.parametrize(
    ("label", "score", "value"),
    [("pass", None, 1.0), ("Fail", None, 0.0), ("not relevant", 4.0, 0.0), ("correct", 0.1, 1.0), ("warm", 0.3, 0.3)],
)
def test_a_label_that_says_which_way_goes_before_the_score(label: str, score: float | None, value: float):
    said = only(evaluation("Check", score, label))
    assert (said.kind, said.value, said.tags) == ("rating", value, (label,))


@pytest.mark.parametrize("score", [4.0, -1.0, 1.01, 5])
def test_a_score_on_another_scale_is_an_outcome(score: float):
    said = only(evaluation("Stars", score))
    assert (said.kind, said.metric, said.value) == ("outcome", "Stars", score)


@pytest.mark.parametrize("name", ["Hallucination", "toxicity", "gender_bias", "self-harm", "prompt_injection"])
def test_a_high_score_of_something_bad_is_no_praise(name: str):
    assert only(evaluation(name, 0.9)).kind == "outcome"
    assert only(evaluation(name, 0.9, "fail")).value == 0.0


@pytest.mark.parametrize(
    "given", [{}, evaluation(), evaluation(label="warm"), evaluation(score="0.5"), evaluation(score=True)]
)
def test_without_a_score_or_a_verdict_there_is_nothing(given: dict[str, Any]):
    assert read(events=[(NAME, given)]) == []


def test_a_span_may_be_an_evaluation_and_name_the_response():
    ((response, said),) = read(name=NAME, attributes=evaluation("Check", 1.0, gen_ai__response__id="chatcmpl-1"))
    assert (response, said.value) == ("chatcmpl-1", 1.0)
    assert len(read(attributes=evaluation("Check", 1.0))) == 1


def test_a_span_may_carry_several():
    events = [(NAME, evaluation("a", 0.1)), ("other", evaluation("b", 0.2)), (NAME, evaluation("c", 0.3))]
    assert [said.rater for _, said in read(events=events)] == ["system:a", "system:c"]


def test_long_texts_are_cut_to_what_feedback_takes():
    said = only(evaluation("n" * 500, 7.0, "l" * 500, gen_ai__evaluation__explanation="e" * 9000))
    assert (len(said.rater), len(said.metric), len(said.tags[0]), len(said.notes)) == (200, 100, 60, 4000)
