from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.base.records import PairScore
from rl.evaluation.gate import FEWEST_PROMPTS, Verdict, decide, decide_means

ORDER = ["reject", "undecided", "promote"]


def scores(rights: list[bool], pairs_per_prompt: int = 1) -> list[PairScore]:
    return [PairScore(f"p{i // pairs_per_prompt}", 1.0 if right else -1.0, 0.0) for i, right in enumerate(rights)]


def judge(new: list[bool], current: list[bool], pairs_per_prompt: int = 1) -> Verdict:
    return decide(
        scores(new, pairs_per_prompt), scores(current, pairs_per_prompt), ratings_per_prompt=4, held_out_share=0.2
    )


both = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=80)


def test_a_version_that_is_better_beyond_chance_is_promoted():
    verdict = judge([True] * 30, [True] * 15 + [False] * 15)
    assert verdict.decision == "promote"
    assert verdict.difference.low > 0
    assert verdict.ratings_needed is None
    assert verdict.reason == "The new version is better: +50.0 points on 30 prompts, 95% interval +27.5 to +66.2."


def test_a_version_that_is_worse_beyond_chance_is_rejected():
    verdict = judge([False] * 15 + [True] * 15, [True] * 30)
    assert verdict.decision == "reject"
    assert verdict.difference.high < 0
    assert "worse: -50.0 points" in verdict.reason


def test_a_better_point_estimate_is_not_enough():
    verdict = judge([True] * 10, [True] * 8 + [False] * 2)
    assert verdict.difference.value == pytest.approx(0.2)
    assert verdict.decision == "undecided"
    # Two gains in ten prompts: 24 prompts would do (by hand: 0.1846 - 0.1833 > 0). That is 14 more, at 4 ratings each and
    # one prompt in five held out.
    assert verdict.ratings_needed == 280
    assert "could be chance" in verdict.reason
    assert "about 280 more ratings should decide" in verdict.reason


@pytest.mark.parametrize("prompts", range(8))
def test_fewer_than_five_prompts_decide_nothing(prompts):
    verdict = judge([True] * prompts * 50, [False] * prompts * 50, pairs_per_prompt=50)
    assert verdict.decision == "undecided"
    assert verdict.ratings_needed is not None
    assert verdict.ratings_needed >= 20 * (8 - prompts)
    assert "at least 8 are needed" in verdict.reason


def test_many_pairs_of_few_prompts_do_not_pass_for_many_prompts():
    assert judge([True] * 120, [True] * 60 + [False] * 60, pairs_per_prompt=1).decision == "promote"
    assert judge([True] * 120, [True] * 60 + [False] * 60, pairs_per_prompt=20).decision == "undecided"


def test_no_difference_at_all_says_so():
    verdict = judge([True, False] * 10, [True, False] * 10)
    assert (verdict.decision, verdict.ratings_needed) == ("undecided", None)
    assert "No difference" in verdict.reason


def test_without_held_out_prompts_there_is_nothing_to_wait_for():
    verdict = decide([], [], ratings_per_prompt=4, held_out_share=0)
    assert (verdict.decision, verdict.ratings_needed) == ("undecided", None)
    assert "No prompts are held out" in verdict.reason


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_a_new_version_without_numbers_is_rejected(bad):
    new = [*scores([True] * 29), PairScore("p29", bad, 0.0)]
    verdict = decide(new, scores([False] * 30), ratings_per_prompt=4, held_out_share=0.2)
    assert verdict.decision == "reject"
    assert verdict.reason == "The new version gives no finite score to 1 of 30 held-out pairs."


def test_a_broken_version_in_use_is_no_reason_to_promote():
    current = [PairScore(f"p{i}", math.nan, math.nan) for i in range(30)]
    verdict = decide(scores([True] * 30), current, ratings_per_prompt=4, held_out_share=0.2)
    assert verdict.decision == "undecided"
    assert "version in use gives no finite score" in verdict.reason


def with_margin(new: list[bool], current: list[bool], margin: float) -> Verdict:
    return decide(scores(new), scores(current), ratings_per_prompt=4, held_out_share=0.2, margin=margin)


def test_with_a_margin_it_is_enough_not_to_be_worse_by_more():
    verdict = with_margin([True] * 150, [True] * 150, 0.02)
    assert verdict.decision == "promote"
    assert verdict.difference.low < 0
    assert verdict.reason == (
        "The new version is not worse by more than 2 points: +0.0 points on 150 prompts, 95% interval -1.8 to +1.8."
    )
    assert with_margin([True] * 150, [True] * 150, 0).decision == "undecided"


def test_a_version_that_is_better_is_called_so_with_a_margin_too():
    assert "is better: +50.0" in with_margin([True] * 30, [True] * 15 + [False] * 15, 0.02).reason


def test_a_margin_never_promotes_on_a_point_estimate():
    verdict = with_margin([True] * 20, [True] * 20, 0.02)
    assert verdict.decision == "undecided"
    assert verdict.reason.startswith("Whether the new version is worse by more than 2 points is open: +0.0 points")
    assert verdict.ratings_needed == 2400  # 137 prompts settle it: 117 more, at 4 ratings each, one in five held out


def test_worse_by_more_than_the_margin_is_rejected_and_by_less_is_not():
    worse = with_margin([False] * 30 + [True] * 70, [True] * 100, 0.05)
    assert (worse.decision, worse.ratings_needed) == ("reject", None)
    assert "is worse by more than 5 points: -30.0" in worse.reason
    assert with_margin([False] * 10 + [True] * 90, [True] * 100, 0.05).decision == "undecided"


def test_a_margin_of_reward_is_one_too():
    changes = [0.01, -0.01] * 20
    held = decide_means(changes, held_out_share=0.2, most_prompts=200, margin=0.02)
    assert (held.decision, "not worse by more than 0.02 reward" in held.reason) == ("promote", True)
    assert decide_means(changes, held_out_share=0.2, most_prompts=200).decision == "undecided"
    open_one = decide_means([0.1, -0.1] * 6, held_out_share=0.2, most_prompts=200, margin=0.02)
    assert "Whether the new version is worse by more than 0.02 reward is open" in open_one.reason


def test_scores_of_different_pairs_are_refused():
    with pytest.raises(ValueError, match="same pairs"):
        judge([True] * 10, [True] * 9)


@pytest.mark.parametrize(("ratings", "share"), [(0, 0.2), (math.nan, 0.2), (4, -0.1), (4, 1.5)])
def test_impossible_rates_are_refused(ratings, share):
    with pytest.raises(ValueError, match="ratings a prompt"):
        decide([], [], ratings_per_prompt=ratings, held_out_share=share)


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=200), st.integers(1, 4))
def test_a_version_is_never_promoted_over_itself(rights, pairs_per_prompt):
    assert judge(rights, rights, pairs_per_prompt).decision == "undecided"


@settings(deadline=None)
@given(both, st.integers(1, 3))
def test_swapping_the_versions_swaps_the_verdict(rights, pairs_per_prompt):
    new, current = [n for n, _ in rights], [c for _, c in rights]
    there, back = judge(new, current, pairs_per_prompt), judge(current, new, pairs_per_prompt)
    assert ORDER.index(there.decision) + ORDER.index(back.decision) == 2
    assert there.ratings_needed == back.ratings_needed


@settings(deadline=None, max_examples=300)
@given(both.filter(bool), st.integers(1, 3), st.data())
def test_one_more_right_answer_never_worsens_the_verdict(rights, pairs_per_prompt, data):
    new, current = [n for n, _ in rights], [c for _, c in rights]
    better = list(new)
    better[data.draw(st.integers(0, len(new) - 1))] = True
    before, after = judge(new, current, pairs_per_prompt), judge(better, current, pairs_per_prompt)
    assert ORDER.index(after.decision) >= ORDER.index(before.decision)


@settings(deadline=None)
@given(both)
def test_a_decision_agrees_with_its_interval(rights):
    verdict = judge([n for n, _ in rights], [c for _, c in rights])
    assert (verdict.difference.low > 0 and len(rights) >= FEWEST_PROMPTS) == (verdict.decision == "promote")
    assert (verdict.difference.high < 0 and len(rights) >= FEWEST_PROMPTS) == (verdict.decision == "reject")
    assert verdict.reason.endswith(".")


def of_rewards(changes: list[float], share: float = 0.2) -> Verdict:
    return decide_means(changes, held_out_share=share, most_prompts=200)


def test_rewards_that_are_surely_higher_promote_and_surely_lower_ones_reject():
    changes = [0.3, 0.5, 0.1, 0.4, 0.2, 0.6, 0.3, 0.4]
    better, worse = of_rewards(changes), of_rewards([-change for change in changes])
    assert (better.decision, worse.decision) == ("promote", "reject")
    assert better.difference.value == pytest.approx(0.35)
    assert better.difference.low == pytest.approx(0.35 - 2.3646 * 0.160357 / math.sqrt(8), abs=1e-4)  # t of 7 degrees
    assert better.reason == "The new version is better: +0.350 reward on 8 prompts, 95% interval +0.216 to +0.484."


@pytest.mark.parametrize(
    ("changes", "share", "reason"),
    [
        ([], 0.0, "No prompts are held out"),
        ([0.5] * 7, 0.2, "7 prompts held out that could be rewarded, and at least 8 are needed."),
        ([0.5], 0.2, "1 prompt held out that could be rewarded"),
        ([0.5, -0.5] * 8, 0.2, "No difference between the two versions: +0.000 reward on 16 prompts"),
        ([1.0, -0.8] * 8, 0.2, "it is too small to be told on 200 prompts."),
        ([1.0, -0.4] * 8, 0.2, "about 57 more prompts should decide."),
    ],
)
def test_rewards_that_differ_by_chance_are_undecided_and_say_what_is_missing(changes, share, reason):
    verdict = of_rewards(changes, share)
    assert (verdict.decision, verdict.ratings_needed) == ("undecided", None)
    assert reason in verdict.reason


@settings(deadline=None)
@given(st.lists(st.floats(-1, 1), max_size=60))
def test_a_decision_about_rewards_agrees_with_its_interval_and_turns_with_the_sign(changes):
    verdict, back = of_rewards(changes), of_rewards([-change for change in changes])
    enough = len(changes) >= FEWEST_PROMPTS
    assert (verdict.difference.low > 0 and enough) == (verdict.decision == "promote")
    assert ORDER.index(verdict.decision) + ORDER.index(back.decision) == 2
