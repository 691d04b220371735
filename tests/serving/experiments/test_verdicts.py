import random

import pytest

from rl.serving.experiments.sequential import MetricTally
from rl.serving.experiments.verdicts import Evidence, Question, decide, predict_observations, read

CONTROL, CHALLENGER, THIRD = 1, 2, 3
NAMES = {CONTROL: "base", CHALLENGER: "v286"}
HALVES = {CONTROL: 0.5, CHALLENGER: 0.5}


def question(**settings) -> Question:
    return Question(**{"names": NAMES, "control": CONTROL, "metric": "thumbs_up", **settings})


def thumbs(n: int, **up: float) -> MetricTally:
    """``n`` users an arm, and the share of thumbs up: ``base=0.5, v286=0.8``."""
    keys = {"base": CONTROL, "v286": CHALLENGER, "v300": THIRD}
    tally = MetricTally()
    for name, share in up.items():
        for number in range(n):
            tally.add(keys[name], number, float(number < round(n * share)))
    return tally


def errors(*counts: tuple[int, int]) -> MetricTally:
    tally = MetricTally()
    for arm, (requests, failures) in zip((CONTROL, CHALLENGER, THIRD), counts, strict=False):
        tally.count(arm, requests, failures)
    return tally


def test_a_better_challenger_is_promoted():
    found = decide(question(), Evidence(thumbs(300, base=0.5, v286=0.75)))
    assert (found.verdict, found.arm) == ("promote", CHALLENGER)
    assert found.reason.startswith("v286 is better than base: +25.0 points (95 % interval +")


def test_a_worse_challenger_is_rolled_back():
    found = decide(question(), Evidence(thumbs(300, base=0.75, v286=0.5)))
    assert (found.verdict, found.arm) == ("roll_back", CONTROL)
    assert "v286 is worse than base: −25.0 points" in found.reason


def test_arms_within_the_smallest_difference_that_matters_are_equal():
    found = decide(question(), Evidence(thumbs(1500, base=0.6, v286=0.6)))
    assert (found.verdict, found.arm) == ("no_difference", CONTROL)
    assert "differ by less than 10 points" in found.reason


def test_nothing_is_concluded_before_the_smallest_sample():
    tally = thumbs(100, base=0.1, v286=0.9)
    assert decide(question(min_samples=101), Evidence(tally, shares=HALVES)).verdict == ""
    assert decide(question(min_samples=100), Evidence(tally)).verdict == "promote"


def test_a_person_cannot_ask_for_less_than_the_intervals_need():
    assert decide(question(min_samples=2), Evidence(thumbs(19, base=0.0, v286=1.0), shares=HALVES)).verdict == ""
    assert decide(question(min_samples=2), Evidence(thumbs(20, base=0.0, v286=1.0))).verdict == "promote"


def test_the_largest_sample_ends_it():
    tally = thumbs(200, base=0.5, v286=0.55)
    assert decide(question(), Evidence(tally, shares=HALVES)).verdict == ""
    found = decide(question(max_samples=200), Evidence(tally))
    assert found.verdict == "no_difference"
    assert found.reason.startswith("No difference between v286 and base was found in 200 rated users an arm")


def test_without_a_largest_sample_it_ends_at_twice_the_predicted():
    asked = question()
    size = predict_observations(asked, thumbs(100, base=0.5, v286=0.55), CHALLENGER)
    assert size == pytest.approx(760, abs=20)
    assert decide(asked, Evidence(thumbs(size, base=0.5, v286=0.55), shares=HALVES)).verdict == ""
    assert decide(asked, Evidence(thumbs(2 * size + 20, base=0.5, v286=0.55))).verdict == "no_difference"


def test_an_open_experiment_says_about_how_many_are_missing():
    found = decide(question(), Evidence(thumbs(100, base=0.5, v286=0.55), shares=HALVES))
    assert (found.verdict, found.arm) == ("", None)
    assert found.reason.startswith("No answer yet about v286: +5.0 points (95 % interval −")
    missing = int(found.reason.split("About ")[1].split()[0])
    assert 1250 <= missing <= 1400  # of 2 x 760


def test_a_clear_difference_waits_for_the_smallest_sample_only():
    found = decide(question(), Evidence(thumbs(30, base=0.1, v286=0.9), shares=HALVES))
    assert found.verdict == ""
    assert found.reason.endswith("About 40 more rated users reach the smallest sample.")


def test_a_difference_of_shares_is_at_most_one():
    tally = thumbs(20, base=0.0, v286=1.0)
    found = read(question(), tally, CHALLENGER)
    assert (found.difference.value, found.difference.high) == (1.0, 1.0)
    assert found.difference.low < 0.9
    outcome = read(question(metric="outcome:saved"), tally, CHALLENGER)
    assert outcome.difference.high > 1.0


def test_a_small_share_needs_more_users():
    tally = thumbs(100, base=0.5, v286=0.55)
    texts = [
        decide(question(), Evidence(tally, shares=shares)).reason
        for shares in (HALVES, {CONTROL: 0.9, CHALLENGER: 0.1})
    ]
    few, many = (int(text.split("About ")[1].split()[0]) for text in texts)
    assert many > 2 * few


def test_no_traffic_and_no_ratings_are_said_plainly():
    assert decide(question(), Evidence(MetricTally(), shares=HALVES)).reason == (
        "No answer yet about v286: there are no rated users of both v286 and base."
    )
    found = decide(question(), Evidence(thumbs(30, base=0.5, v286=0.5), shares={CONTROL: 1.0}))
    assert found.reason.endswith(").")  # no guess


def test_a_lower_error_rate_is_better():
    asked = question(metric="error_rate", minimum_effect=0.05)
    assert decide(asked, Evidence(errors((1000, 200), (1000, 50)))).verdict == "promote"
    assert decide(asked, Evidence(errors((1000, 50), (1000, 200)))).verdict == "roll_back"


def test_a_win_rate_is_compared_with_one_half():
    tally = MetricTally()
    for number in range(300):
        tally.add(CHALLENGER, number, float(number % 4 != 0))
    found = decide(question(metric="win_rate"), Evidence(tally))
    assert found.verdict == "promote"
    assert "+25.0 points" in found.reason


# --- the guard ---------------------------------------------------------------------------------------------------------


def guarded(**settings) -> Question:
    return question(guard_metric="error_rate", guard_margin=0.05, **settings)


def test_a_guard_stops_a_bad_arm_before_the_smallest_sample():
    evidence = Evidence(thumbs(5, base=0.5, v286=0.6), errors((60, 0), (60, 30)), shares=HALVES)
    found = decide(guarded(), evidence)
    assert (found.verdict, found.arm, found.harmful) == ("roll_back", CONTROL, (CHALLENGER,))
    assert found.reason.startswith(
        "v286 was stopped by its guard: its error rate differs from that of base by +50.0 points"
    )


def test_a_guard_goes_before_a_good_metric():
    evidence = Evidence(thumbs(300, base=0.5, v286=0.9), errors((300, 0), (300, 150)))
    assert decide(guarded(), evidence).verdict == "roll_back"


@pytest.mark.parametrize(
    "counts", [((15, 0), (15, 15)), ((500, 10), (500, 22)), ((500, 100), (500, 0)), ((0, 0), (90, 90))]
)
def test_a_guard_holds_still_for_few_bearable_better_or_incomparable(counts):
    found = decide(guarded(), Evidence(thumbs(5, base=0.5, v286=0.6), errors(*counts), shares=HALVES))
    assert (found.verdict, found.harmful) == ("", ())


# --- several challengers -----------------------------------------------------------------------------------------------

THREE = {**NAMES, THIRD: "v300"}


def test_the_level_is_divided_over_the_challengers():
    tally = thumbs(100, base=0.5, v286=0.6, v300=0.6)
    one, two = question(), question(names=THREE)
    assert read(two, tally, CHALLENGER).difference.low < read(one, tally, CHALLENGER).difference.low


def test_the_best_of_two_better_challengers_is_promoted():
    found = decide(question(names=THREE), Evidence(thumbs(400, base=0.3, v286=0.6, v300=0.8)))
    assert (found.verdict, found.arm) == ("promote", THIRD)


def test_a_beaten_challenger_leaves_and_the_other_goes_on():
    shares = {CONTROL: 0.4, CHALLENGER: 0.3, THIRD: 0.3}
    found = decide(question(names=THREE), Evidence(thumbs(200, base=0.6, v286=0.2, v300=0.62), shares=shares))
    assert (found.verdict, found.beaten) == ("", (CHALLENGER,))
    assert "about v300" in found.reason
    assert "about v286" not in found.reason


def test_a_harmful_challenger_leaves_and_the_other_goes_on():
    evidence = Evidence(thumbs(30, base=0.5, v286=0.5, v300=0.5), errors((100, 0), (100, 50), (100, 0)))
    found = decide(guarded(names=THREE), evidence)
    assert (found.verdict, found.harmful) == ("", (CHALLENGER,))


def test_when_all_were_stopped_the_control_stays():
    found = decide(question(), Evidence(thumbs(30, base=0.5, v286=0.5), stopped=frozenset({CHALLENGER})))
    assert (found.verdict, found.arm) == ("roll_back", CONTROL)
    assert found.reason == "No challenger is left: all were stopped."


# --- what looking early costs ------------------------------------------------------------------------------------------


def ends(rate: float, rng: random.Random, most: int = 800) -> str:
    tally = MetricTally()
    for user in range(1, most + 1):
        tally.add(CONTROL, user, float(rng.random() < 0.5))
        tally.add(CHALLENGER, user, float(rng.random() < rate))
        if user % 10 == 0 and (verdict := decide(question(), Evidence(tally)).verdict):
            return verdict
    return ""


def test_equal_arms_looked_at_all_the_time_seldom_get_a_false_verdict():
    rng = random.Random(7)
    false = sum(ends(0.5, rng) in ("promote", "roll_back") for _ in range(150))
    assert false / 150 <= 0.08


def test_a_real_difference_is_found_within_the_predicted_sample():
    rng = random.Random(7)
    found = [
        ends(0.6, rng, most=predict_observations(question(), thumbs(200, base=0.5, v286=0.6), CHALLENGER))
        for _ in range(150)
    ]
    assert found.count("promote") / 150 >= 0.8
    assert found.count("roll_back") == 0
