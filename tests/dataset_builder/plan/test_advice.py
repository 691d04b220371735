from dataclasses import fields
from typing import Any

import pytest

from rl.dataset_builder.plan.advice import Advice, MethodPlan, advise, plans
from rl.dataset_builder.plan.figures import Figures


def figures(**known: int) -> Figures:
    return Figures(**{field.name: known.get(field.name, 0) for field in fields(Figures)})


def planned(**known: Any) -> tuple[dict[str, MethodPlan], Advice]:
    found = figures(**known)
    methods = plans(found, uses_direct=True, agent="support-chat")
    return {plan.method: plan for plan in methods}, advise(found, methods)


@pytest.mark.parametrize(
    ("known", "method"),
    [
        ({}, ""),
        ({"good": 20, "bad": 20, "rated_pairs": 20}, "mpo"),
        ({"corrections": 15}, "mpo"),
        ({"good": 400, "bad": 100, "rated_pairs": 12, "judged_alone": 476}, "mpo"),
        ({"good": 6, "bad": 6, "judged_alone": 12}, "mpo"),
        ({"good": 12, "judged_alone": 12, "good_alone": 12}, "sft"),
        ({"good": 9, "judged_alone": 9, "good_alone": 9}, ""),
        ({"rewarded": 100, "rewarded_good": 50, "differing_prompts": 30}, "grpo"),
        ({"rewarded": 100, "rewarded_good": 50, "differing_prompts": 30, "good": 4, "bad": 4}, "grpo"),
        (
            {"rewarded": 100, "rewarded_good": 50, "differing_prompts": 30, "good": 40, "bad": 40, "judged_alone": 80},
            "mpo",
        ),
        ({"rewarded": 100, "rewarded_good": 50, "single_prompts": 100}, "mpo"),
    ],
)
def test_the_method_that_uses_what_there_is(known, method):
    assert planned(**known)[1].method == method


def test_what_is_missing_is_said_for_each_method():
    of, advice = planned(
        traces=50,
        good=3,
        bad=2,
        rated_pairs=2,
        one_sided_prompts=3,
        rewarded=4,
        rewarded_good=2,
        rated_and_rewarded=4,
        differing_prompts=1,
    )
    assert of["dpo"].missing == "8 more pairs: on 3 prompts one opposite rating is missing, or edit an answer"
    assert of["kto"].missing == "5 more labelled answers: rate single answers, up or down"
    assert of["grpo"].missing.startswith("9 more prompts with two or more answers whose rewards differ; 'manage.py")
    assert of["reward_model"].missing.startswith(
        "4 more scored answers: rate single answers, by thumb, stars or score; 'man"
    )
    assert of["sft"].missing == "8 more accepted answers: choose, edit or like answers"
    assert of["reward"].missing.startswith("6 more answers with a reward: 'manage.py calculate_rewards --agent support")
    assert advice.reason == f"nothing can be trained yet; mpo is nearest: {of['mpo'].missing}"
    assert not any(plan.ready for plan in of.values())


def test_methods_that_have_enough_already_are_named_where_none_is_advised():
    of, advice = planned(good=6, bad=6, rated_pairs=6)
    assert of["kto"].ready
    assert advice.method == ""
    assert advice.reason == f"only kto can be trained yet; mpo is nearest: {of['mpo'].missing}"


def test_one_of_a_thing_is_named_as_one():
    of, _ = planned(
        good=9, rated_pairs=9, one_sided_prompts=1, rewarded=9, rated_and_rewarded=9, differing_prompts=9, corrections=9
    )
    assert of["kto"].missing == "1 more labelled answer: rate single answers, up or down"
    assert of["sft"].ready
    assert of["grpo"].missing.startswith("1 more prompt with")


def test_where_edited_answers_make_no_pairs_nobody_is_told_to_edit():
    [_, dpo, *_] = plans(figures(corrections=20), uses_direct=False, agent="widgets")
    assert dpo.missing == "10 more pairs: rate two answers to one prompt, one up and one down"


def test_labels_of_one_kind_are_not_enough_for_kto():
    of, _ = planned(good=40)
    assert of["kto"].missing == "all labels are good: rate some answers down"
    of, _ = planned(bad=40)
    assert of["kto"].missing == "all labels are bad: rate some answers up"
    of, _ = planned(good=40, rewarded=5, rewarded_good=4)
    assert of["kto"].ready


def test_the_plan_says_what_each_rating_becomes_and_how_many_learn():
    known = {"ratings": 90, "good": 50, "bad": 30, "rated_pairs": 12, "judged_alone": 56, "corrections": 4}
    of, advice = planned(**known)
    assert of["mpo"].rows == 12 + 4 + 56
    everybody = "16 pairs, 56 single answers; 100 % of the ratings take part"
    assert of["mpo"].made_of == everybody
    assert advice.reason == f"every kind of rating trains in one run: {everybody}"
    of, _ = planned(**known, undecided=9)
    why = (
        "90% of the ratings take part, the others are of answers in the middle of the scale, without text or broken off"
    )
    assert of["mpo"].made_of.endswith(why)


def test_likes_alone_are_enough_where_answers_are_right_or_wrong():
    found = figures(good=12, judged_alone=12, ratings=12)
    [mixed, *_] = plans(found, uses_direct=True, agent="support-chat")
    assert mixed.missing == "all labels are good: rate some answers down"
    [mixed, *_] = plans(found, uses_direct=True, agent="support-chat", has_right_answers=True)
    assert mixed.ready
