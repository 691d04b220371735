"""Fresh answers, compared by a judge whose error is measured on people's labels."""

import random
from collections.abc import Iterable
from typing import Any

import pytest

from rl.base.records import GeneratedAnswer, silent
from rl.evaluation.judges import Judged
from rl.evaluation.measures import fresh
from rl.evaluation.measures.fresh import check, estimate
from rl.evaluation.preferring import choose_judge

PROMPTS = [f"q{number}" for number in range(40)]


def checked(preferences: list[float], prompts: list[str]) -> Judged:
    return Judged(list(zip(prompts, preferences, strict=True)), [], len(prompts))


def contrasts_of(prompts: Iterable[str]) -> list[dict[str, Any]]:
    """Makes one of each prompt; people prefer the longer answer to every fourth."""
    return [
        {
            "prompt_key": prompt,
            "chosen": [{"role": "assistant", "content": "a b c" if number % 4 == 0 else "a"}],
            "rejected": [{"role": "assistant", "content": "d e"}],
        }
        for number, prompt in enumerate(prompts)
    ]


def sure_judge(p: float = 0.8, right: int = 32, of: int = 40):
    """Always p sure; it agrees with people on ``right`` of ``of`` prompts."""
    known = check(
        "a judge",
        checked([p if number < right else 1 - p for number in range(of)], PROMPTS[:of]),
        contrasts_of(PROMPTS),
    )
    assert known
    return known


def texts(words: list[tuple[int, int]]) -> list[tuple[str, str]]:
    """Words of these numbers, none of them twice in an answer."""
    return [
        tuple(" ".join(f"{side}{at}" for at in range(count)) for side, count in zip("ab", both, strict=True))
        for both in words
    ]


def test_the_share_is_that_of_the_sides_that_the_judge_takes_however_sure_it_is():
    for p in (0.55, 0.95):
        preferences = [p] * 20 + [1 - p] * 10
        assert estimate(sure_judge(), preferences, texts([(9, 9)] * 30)).forecast.value == pytest.approx(2 / 3)


def test_equal_answers_are_a_draw_whatever_the_judge_makes_of_them():
    drawn = estimate(sure_judge(), [0.9] * 10, [("same", "same")] * 10)
    assert (drawn.forecast.value, drawn.different) == (0.5, 0)


LOOP = "Add a pinch of salt. " * 6


@pytest.mark.parametrize(
    ("new", "old", "share"),
    [
        (LOOP, "Add salt.", 0.0),
        ("Add salt.", LOOP, 1.0),
        (" ", "Add salt.", 0.0),
        ("Add salt.", "\n", 1.0),
        (LOOP, "\n", 0.5),
    ],
)
def test_an_answer_that_is_empty_or_in_a_loop_loses_whatever_the_judge_says(new: str, old: str, share: float):
    for sure in (0.9, 0.1):
        assert estimate(sure_judge(), [sure] * 10, [(new, old)] * 10).forecast.value == share


def test_where_broken_answers_are_allowed_the_judge_alone_decides():
    pairs = [(LOOP, "Add salt.")] * 10
    assert estimate(sure_judge(), [0.9] * 10, pairs, breakage_loses=False).forecast.value == 1.0


def test_a_judge_that_guesses_does_not_beat_chance_and_neither_does_one_with_few_labels():
    assert sure_judge(right=32).beats_chance
    assert not sure_judge(right=21).beats_chance
    assert not sure_judge(right=7, of=7).beats_chance
    assert check("a judge", checked([0.8], ["q1"]), contrasts_of(["q1"])) is None


def test_how_often_the_longer_answer_wins_stands_beside_it():
    assert sure_judge().longer == 0.25
    assert sure_judge(of=39).longer == pytest.approx(10 / 39)  # of the prompts that it was checked on


def test_pairs_of_one_prompt_count_as_one():
    judge = check("a judge", checked([0.8] * 30 + [0.2], ["q1"] * 30 + ["q2"]), contrasts_of(["q1", "q2"]))
    assert judge
    assert (judge.prompts, judge.agreement.value) == (2, 0.5)


def test_the_forecast_covers_what_people_prefer_where_the_judge_misses_it_by_nine_points():
    rng, covered = random.Random(3), 0
    judge = sure_judge()
    for _ in range(300):
        share = min(1.0, max(0.0, 0.65 + rng.gauss(0, 0.09)))  # of the judge's sides, where people's is 0.65
        sides = [0.8 if rng.random() < share else 0.2 for _ in range(50)]
        forecast = estimate(judge, sides, texts([(9, 9)] * 50)).forecast
        covered += forecast.low <= 0.65 <= forecast.high
    assert 0.92 <= covered / 300 <= 0.99  # 95 %


def test_a_tie_agrees_by_half():
    """Of a model on a server, whose two questions may be answered by the same side."""
    judge = check("a judge", checked([1.0] * 15 + [0.0] * 5 + [0.5] * 20, PROMPTS), contrasts_of(PROMPTS))
    assert judge
    assert judge.agreement.value == pytest.approx(25 / 40)
    tied = estimate(judge, [1.0] * 10 + [0.5] * 10, texts([(9, 9)] * 20))
    assert tied.forecast.value == pytest.approx(0.75)


def test_what_can_be_gamed_is_told_beside_it():
    lists = [("- one\n- two", "In one sentence."), ("**Two** words", "Three more words")]
    shown = estimate(sure_judge(), [0.6] * 2, lists).as_dict()
    assert (shown["words"], shown["formatted"]) == ({"new": 3, "current": 3}, {"new": 1, "current": 0})


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def rated(number: int, better: str, worse: str) -> dict:
    prompt = [{"role": "user", "content": f"Where is parcel {number}?"}]
    return {"prompt": prompt, "prompt_key": f"q{number}", "chosen": said(better), "rejected": said(worse), "weight": 1}


SHORT, LONG = (
    "Open Orders.",
    "We are very sorry to hear that, and ask you to be patient with us for a while, number {}.",
)


def answers(text: str, count: int) -> list[GeneratedAnswer]:
    return [GeneratedAnswer(text.format(number), 5, 5) for number in range(count)]


def measure(tiny_base, labelled, new: str, old: str) -> fresh.Fresh | None:
    asked = [{"prompt": row["prompt"], "prompt_key": f"fresh {n}"} for n, row in enumerate(labelled[:12])]
    given = {"new": answers(new, len(asked)), "base": answers(old, len(asked))}
    return fresh.measure(choose_judge("", str(tiny_base), 256, silent), "dpo", labelled, asked, given)


@pytest.mark.learn
def test_a_judge_learns_from_pairs_which_fresh_answers_people_would_prefer(tiny_base):
    labelled = [rated(number, SHORT + f" {number}", LONG.format(number)) for number in range(40)]
    better, worse = measure(tiny_base, labelled, SHORT, LONG), measure(tiny_base, labelled, LONG, SHORT)
    assert better
    assert worse
    assert better.judge.beats_chance
    assert better.forecast.low > 0.5 > worse.forecast.high


@pytest.mark.learn
def test_labels_that_are_noise_make_a_judge_that_decides_nothing(tiny_base):
    rng = random.Random(5)
    words = ["Open", "Orders", "and", "choose", "Track", "please", "wait", "a", "little"]
    labelled = [rated(number, *(" ".join(rng.choices(words, k=5)) for _ in range(2))) for number in range(40)]
    measured = measure(tiny_base, labelled, "Take this.", "Try that.")
    assert measured
    assert not measured.judge.beats_chance


@pytest.mark.learn
def test_without_labels_or_answers_there_is_no_such_evidence(tiny_base):
    labelled = [rated(number, SHORT, LONG) for number in range(3)]
    assert measure(tiny_base, labelled[:1], SHORT, LONG) is None
    assert measure(tiny_base, [], SHORT, LONG) is None
