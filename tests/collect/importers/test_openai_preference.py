import pytest

from rl.collect.importers import openai_preference
from tests.collect.importers.reading import lines, reason, said, taken


def row(better: object = "Good.", worse: object = "Bad.", **given: object) -> dict[str, object]:
    asked = {"messages": [said("user", "Well?")], **given}
    return {
        "input": asked,
        "preferred_output": [said("assistant", better)],
        "non_preferred_output": [said("assistant", worse)],
    }


def test_a_row_is_two_answers_and_a_comparison(tmp_path):
    worse, better = taken(openai_preference, lines(tmp_path, row(tools=[{"type": "function"}])))
    assert (better.response, worse.response) == ("Good.", "Bad.")
    assert better.prompt == worse.prompt == ({"role": "user", "content": "Well?"},)
    assert better.details == worse.details == {"tools": [{"type": "function"}]}
    (picked,) = better.feedback
    assert (picked.kind, picked.choice, picked.other_external_id) == ("comparison", "left", worse.external_id)
    assert worse.feedback == ()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"input": None}, "input.messages must be a list"),
        ({"input": 7}, "input must be an object"),
        ({"input": {"messages": []}}, "input.messages must be a list"),
        ({"preferred_output": []}, "preferred_output must be a list"),
        (
            {"preferred_output": [said("user", "x")]},
            "preferred_output is a whole chat that begins with another question",
        ),
        ({"preferred_output": [said("assistant", "Bad.")]}, "the two answers are the same"),
        (
            {"non_preferred_output": [said("user", "x"), said("assistant", "y")]},
            "non_preferred_output is a whole chat that begins with another question",
        ),
    ],
)
def test_a_wrong_line_is_rejected_with_the_field(tmp_path, change, why):
    assert reason(openai_preference, tmp_path, {**row(), **change}, row()).startswith(why)
