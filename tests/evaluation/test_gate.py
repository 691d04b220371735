import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.base.measurements import PairScore
from rl.evaluation.gate import FEWEST_PROMPTS, REWARD, RIGHT, Verdict, decide, decide_means
from rl.evaluation.stats.budget import Look, at_look, level

ORDER = ["reject", "undecided", "promote"]


def scores(rights: list[bool], pairs_per_prompt: int = 1) -> list[PairScore]:
    return [PairScore(f"p{i // pairs_per_prompt}", 1.0 if right else -1.0, 0.0) for i, right in enumerate(rights)]


def judge(new: list[bool], current: list[bool], pairs_per_prompt: int = 1) -> Verdict:
    return decide(scores(new, pairs_per_prompt), scores(current, pairs_per_prompt), held_out_share=0.2)


both = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=80)


def test_a_version_that_is_better_beyond_chance_is_promoted():
    verdict = judge([True] * 30, [True] * 15 + [False] * 15)
    assert verdict.decision == "promote"
    assert verdict.difference.low > 0
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
    assert "could be chance" in verdict.reason


@pytest.mark.parametrize("prompts", range(8))
def test_fewer_than_eight_prompts_decide_nothing(prompts):
    verdict = judge([True] * prompts * 50, [False] * prompts * 50, pairs_per_prompt=50)
    assert verdict.decision == "undecided"
    assert "at least 8 are needed" in verdict.reason


def test_many_pairs_of_few_prompts_do_not_pass_for_many_prompts():
    assert judge([True] * 120, [True] * 60 + [False] * 60, pairs_per_prompt=1).decision == "promote"
    assert judge([True] * 120, [True] * 60 + [False] * 60, pairs_per_prompt=20).decision == "undecided"


def test_no_difference_at_all_says_so():
    verdict = judge([True, False] * 10, [True, False] * 10)
    assert verdict.decision == "undecided"
    assert "No difference" in verdict.reason


def test_without_held_out_prompts_there_is_nothing_to_wait_for():
    verdict = decide([], [], held_out_share=0)
    assert verdict.decision == "undecided"
    assert "No prompts are held out" in verdict.reason


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_a_new_version_without_numbers_is_rejected(bad):
    new = [*scores([True] * 29), PairScore("p29", bad, 0.0)]
    verdict = decide(new, scores([False] * 30), held_out_share=0.2)
    assert verdict.decision == "reject"
    assert verdict.reason == "The new version gives no finite score to 1 of 30 held-out pairs."


def test_a_broken_version_in_use_is_no_reason_to_promote():
    current = [PairScore(f"p{i}", math.nan, math.nan) for i in range(30)]
    verdict = decide(scores([True] * 30), current, held_out_share=0.2)
    assert verdict.decision == "undecided"
    assert "version in use gives no finite score" in verdict.reason


def with_margin(new: list[bool], current: list[bool], margin: float) -> Verdict:
    changes = [float(n) - c for n, c in zip(new, current, strict=True)]
    at = {"held_out_share": 0.2, "most_prompts": 200, "words": RIGHT, "look": at_look(1)}
    return decide_means(changes, **at, margin=margin)


def test_with_a_margin_it_is_enough_not_to_be_worse_by_more():
    verdict = with_margin([True] * 200, [True] * 200, 0.02)
    assert verdict.decision == "promote"
    assert verdict.reason.startswith("The new version is not worse by more than 2 points: +0.0 points on 200 prompts")
    assert with_margin([True] * 200, [True] * 200, 0).decision == "undecided"


def test_a_version_that_is_better_is_called_so_with_a_margin_too():
    assert "is better: +50.0" in with_margin([True] * 30, [True] * 15 + [False] * 15, 0.02).reason


def test_a_margin_never_promotes_on_a_point_estimate():
    verdict = with_margin([True] * 20, [True] * 20, 0.02)
    assert verdict.decision == "undecided"
    assert verdict.reason.startswith("Whether the new version is worse by more than 2 points is open: +0.0 points")


def test_worse_by_more_than_the_margin_is_rejected_and_by_less_is_not():
    worse = with_margin([False] * 30 + [True] * 70, [True] * 100, 0.05)
    assert worse.decision == "reject"
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


@given(st.lists(st.booleans(), max_size=200), st.integers(1, 4))
def test_a_version_is_never_promoted_over_itself(rights, pairs_per_prompt):
    assert judge(rights, rights, pairs_per_prompt).decision == "undecided"


@given(both, st.integers(1, 3))
def test_swapping_the_versions_swaps_the_verdict(rights, pairs_per_prompt):
    new, current = [n for n, _ in rights], [c for _, c in rights]
    there, back = judge(new, current, pairs_per_prompt), judge(current, new, pairs_per_prompt)
    assert ORDER.index(there.decision) + ORDER.index(back.decision) == 2


@settings(max_examples=300)
@given(both.filter(bool), st.integers(1, 3), st.data())
def test_one_more_right_answer_never_worsens_the_verdict(rights, pairs_per_prompt, data):
    new, current = [n for n, _ in rights], [c for _, c in rights]
    better = list(new)
    better[data.draw(st.integers(0, len(new) - 1))] = True
    before, after = judge(new, current, pairs_per_prompt), judge(better, current, pairs_per_prompt)
    assert ORDER.index(after.decision) >= ORDER.index(before.decision)


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
        # by hand: s = 0.9295; 2.8016 * 0.9295 / sqrt(200 - 1.92) = 0.185
        (
            [1.0, -0.8] * 8,
            0.2,
            "on 200 prompts, the most that are asked, a version that is better by 0.185 reward would",
        ),
        # by hand: s = 0.3098; (2.8016 * 0.3098 / 0.1)^2 + 1.92 = 77.3, 62 more, of which one in five is held out
        ([0.4, -0.2] * 8, 0.2, "a version that is better by 0.1 reward would show with about 310 more prompts."),
    ],
)
def test_rewards_that_differ_by_chance_are_undecided_and_say_what_is_missing(changes, share, reason):
    verdict = of_rewards(changes, share)
    assert verdict.decision == "undecided"
    assert reason in verdict.reason


@given(st.lists(st.floats(-1, 1), max_size=60))
def test_a_decision_about_rewards_agrees_with_its_interval_and_turns_with_the_sign(changes):
    verdict, back = of_rewards(changes), of_rewards([-change for change in changes])
    enough = len(changes) >= FEWEST_PROMPTS and verdict.difference.value >= REWARD.smallest
    assert (verdict.difference.low > 0 and enough) == (verdict.decision == "promote")
    assert ORDER.index(verdict.decision) + ORDER.index(back.decision) == 2


def of_look(gained: int, lost: int, prompts: int, look: Look, margin: float = 0.0) -> Verdict:
    changes = [1.0] * gained + [-1.0] * lost + [0.0] * (prompts - gained - lost)
    return decide_means(changes, held_out_share=0.2, most_prompts=200, look=look, words=RIGHT, margin=margin)


def test_a_later_look_needs_more_and_says_so():
    first, later = of_look(12, 2, 60, at_look(1)), of_look(12, 2, 60, at_look(50))
    assert first.decision == "promote"
    assert first.reason.endswith("95% interval +4.9 to +28.5; look 1 needs 97%, which holds: +2.0 to +30.3.")
    assert (later.decision, later.difference) == ("undecided", first.difference)
    assert "; look 50 needs 99.98%, which does not hold: -7.9 to +40.2; on 200 prompts, the most" in later.reason
    assert of_look(30, 2, 60, at_look(50)).decision == "promote"


def test_a_look_is_not_named_where_the_95_percent_interval_does_not_hold_either():
    assert "look" not in of_look(6, 5, 60, at_look(50)).reason


def test_rejecting_is_as_easy_at_every_look():
    assert {of_look(2, 12, 60, at_look(number)).decision for number in (1, 50, 1000)} == {"reject"}


def test_a_look_holds_for_a_margin_too():
    assert of_look(0, 0, 200, at_look(1), 0.02).decision == "promote"
    strict = of_look(0, 0, 200, at_look(100), 0.02)
    assert (strict.decision, "look 100 needs" in strict.reason) == ("undecided", True)


@settings(max_examples=60)
@given(st.lists(st.floats(-1, 1), min_size=8, max_size=60), st.integers(1, 300))
def test_a_promotion_at_a_look_needs_its_own_interval(changes, number):
    verdict = decide_means(changes, held_out_share=0.2, most_prompts=200, look=at_look(number))
    alone = decide_means(changes, held_out_share=0.2, most_prompts=200, look=Look(level(number), level(number)))
    assert verdict.decision == alone.decision
    assert verdict.difference == of_rewards(changes).difference
    assert ORDER.index(verdict.decision) <= ORDER.index(of_rewards(changes).decision)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_difference_that_is_too_small_to_matter_decides_nothing(sign: int):
    verdict = of_rewards([sign * 6.6e-6, sign * 6.7e-6] * 10)
    assert verdict.decision == "undecided"
    assert "The difference is too small to matter, less than 0.005 reward: " in verdict.reason
    changes = [sign * 0.0101, sign * 0.0099] * 10
    assert decide_means(changes, held_out_share=0.2, most_prompts=200, words=RIGHT).decision != "undecided"
    assert decide_means(
        [change * 0.9 for change in changes], held_out_share=0.2, most_prompts=200, words=RIGHT
    ).reason.startswith("The difference is too small to matter, less than 1 point: ")


def test_a_loss_that_is_hardly_more_than_the_margin_decides_nothing():
    verdict = decide_means([-0.021, -0.023] * 10, held_out_share=0.2, most_prompts=200, margin=0.02)
    assert verdict.decision == "undecided"
    assert verdict.reason.startswith("The difference from a loss of 0.02 reward is too small to matter")
    assert decide_means([-0.03, -0.032] * 10, held_out_share=0.2, most_prompts=200, margin=0.02).decision == "reject"


def test_so_few_prompts_cannot_show_what_a_late_look_needs():
    early, late = of_look(8, 0, 8, at_look(1)), of_look(8, 0, 8, at_look(3))
    assert early.decision == "promote"
    # all of eight gained: 1 case in 256 of chance, and look 3 may err in 1 of 431; the interval alone would promote
    assert late.decision == "undecided"
    assert "look 3 needs 99.5%, and an exact test has 99.2%" in late.reason


@pytest.mark.parametrize(("prompts", "different"), [(8, 8), (15, 12), (30, 24)])
def test_all_looks_together_keep_the_promise_with_few_prompts_that_all_differ(prompts: int, different: int):
    """Exactly: each outcome with its probability, at each of 30 looks, where both versions are equally good."""
    errors = 0.0
    for gained in range(different // 2, different + 1):
        chance = math.comb(different, gained) / 2**different
        looks = (of_look(gained, different - gained, prompts, at_look(number)) for number in range(1, 31))
        errors += sum(chance for verdict in looks if verdict.decision == "promote")
    assert errors <= sum(map(level, range(1, 31)))


def test_a_rare_large_loss_that_did_not_come_up_is_allowed_for():
    changes = [0.05, 0.04] * 15
    at = {"held_out_share": 0.2, "most_prompts": 200, "words": RIGHT}
    assert decide_means(changes, **at).decision == "promote"
    verdict = decide_means(changes, look=at_look(1), **at)
    assert verdict.decision == "undecided"
    # by hand: the mean of 32 is 0.0422, their deviation 0.254, and t of 31 degrees at 97.45 % is 2.35
    assert "look 1 needs 97%, which does not hold: -6.3 to +14.8" in verdict.reason
