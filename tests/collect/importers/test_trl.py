import pytest

from rl.collect.importers import trl
from tests.collect.importers.reading import lines, one, reason, said, taken

ASKED = [said("system", "Be brief."), said("user", "Well?")]
GOOD = {"prompt": "The sky is", "completion": " blue."}


def test_messages_are_one_answer(tmp_path):
    trace = one(trl, tmp_path, {"messages": [*ASKED, said("assistant", "Yes.")], "tools": []})
    assert (len(trace.prompt), trace.response, trace.details, trace.feedback) == (2, "Yes.", {"tools": []}, ())


def test_text_stands_for_one_message(tmp_path):
    trace = one(trl, tmp_path, GOOD)
    assert trace.prompt == ({"role": "user", "content": "The sky is"},)
    assert trace.response == " blue."


@pytest.mark.parametrize("label", [True, False])
@pytest.mark.parametrize("form", [("Well?", "Yes."), (ASKED, [said("assistant", "Yes.")])])
def test_a_label_is_a_thumb(tmp_path, label, form):
    trace = one(trl, tmp_path, {"prompt": form[0], "completion": form[1], "label": label, "source": "x"})
    (rating,) = trace.feedback
    assert (rating.kind, rating.scale, rating.value) == ("rating", "thumb", float(label))
    assert trace.details == {"source": "x"}


def test_the_label_is_no_part_of_the_answer(tmp_path):
    liked, disliked = taken(trl, lines(tmp_path, {**GOOD, "label": True}, {**GOOD, "label": False}))
    assert liked.external_id == disliked.external_id


@pytest.mark.parametrize(
    ("row", "prompt", "answers"),
    [
        ({"prompt": "The sky is", "chosen": " blue.", "rejected": " green."}, "The sky is", (" green.", " blue.")),
        ({"chosen": "The sky is blue.", "rejected": "The sky is black."}, "The sky is", (" black.", " blue.")),
        (
            {"prompt": ASKED, "chosen": [said("assistant", "A")], "rejected": [said("assistant", "B")]},
            "Well?",
            ("B", "A"),
        ),
        (
            {"chosen": [*ASKED, said("assistant", "A")], "rejected": [*ASKED, said("assistant", "B")]},
            "Well?",
            ("B", "A"),
        ),
    ],
)
def test_chosen_and_rejected_are_two_answers_and_a_comparison(tmp_path, row, prompt, answers):
    worse, better = taken(trl, lines(tmp_path, row))
    assert better.prompt == worse.prompt
    assert better.prompt[-1]["content"] == prompt
    assert (worse.response, better.response) == answers
    assert (better.feedback[0].choice, better.feedback[0].other_external_id) == ("left", worse.external_id)


def test_a_group_has_a_reward_for_each_answer(tmp_path):
    row = {"prompt": ASKED, "completions": [[said("assistant", "4")], [said("assistant", "5")]], "rewards": [1.0, -0.5]}
    found = taken(trl, lines(tmp_path, row))
    assert [trace.response for trace in found] == ["4", "5"]
    assert [(one.kind, one.metric, one.value) for trace in found for one in trace.feedback] == [
        ("outcome", "reward", 1.0),
        ("outcome", "reward", -0.5),
    ]


def test_a_group_may_lack_rewards(tmp_path):
    found = taken(trl, lines(tmp_path, {"prompt": "2+2?", "completions": ["4", "5"]}))
    assert [trace.feedback for trace in found] == [(), ()]
    partly = taken(trl, lines(tmp_path, {"prompt": "2+2?", "completions": ["4", "5"], "rewards": [1, None]}))
    assert [len(trace.feedback) for trace in partly] == [1, 0]


def test_completions_with_labels_are_the_steps_of_one_answer(tmp_path):
    trace = one(
        trl, tmp_path, {"prompt": "9.11 > 9.9?", "completions": ["11 > 9.", "So yes."], "labels": [True, False]}
    )
    assert trace.response == "11 > 9.\nSo yes."
    assert [step.content for step in trace.reasoning_steps] == ["11 > 9.", "So yes."]
    assert trace.details == {"labels": [True, False]}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"prompt": "x"}, "has no answer"),
        ({"text": "x"}, "has no answer"),
        ({**GOOD, "prompt": 7}, "prompt must be text or a list"),
        ({**GOOD, "completion": {}}, "completion must be text or a list"),
        ({**GOOD, "completion": "x", "label": "perhaps"}, "label must be true or false"),
        ({"chosen": "Blue.", "rejected": "Green."}, "has no prompt"),
        ({"chosen": "x", "rejected": []}, "chosen and rejected must both be text"),
        ({"prompt": "x", "chosen": "y", "rejected": "y"}, "the two answers are the same"),
        ({"prompt": "x", "completions": []}, "completions must be a list"),
        ({"prompt": "x", "completions": ["y"], "rewards": [1, 2]}, "rewards must be a list as long as"),
        ({"prompt": "x", "completions": ["y"], "rewards": ["high"]}, "rewards must be a number"),
        ({"prompt": "x", "completions": [[]], "labels": [True]}, "completions with labels are the steps"),
    ],
)
def test_a_wrong_line_is_rejected_with_the_field(tmp_path, row, why):
    assert reason(trl, tmp_path, row, GOOD).startswith(why)
