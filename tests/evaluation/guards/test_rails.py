import math
from dataclasses import replace
from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.base.measurements import Distance, Fit, Interval
from rl.config.guard_limits import GUARD_LIMITS, GUARD_RAILS, check_guard_limits, guard_limits
from rl.data_formatter.answer_kinds import AnswerKind, find_kind
from rl.evaluation.guards.answer_errors import DEGENERATE
from rl.evaluation.guards.findings import Findings, ModelAnswers
from rl.evaluation.guards.rails import EXAMINERS, Rail, broken_reason, hold, say_little


def moved(kl: float = 0.1, likelihood: float = -0.9, chosen: float | None = None) -> Distance:
    return Distance(kl, likelihood, base_likelihood=-0.7, chosen_likelihood=chosen)


def answers(
    lengths: int = 40, errors: dict[str, int] | None = None, reward: float | None = None, n: int = 16
) -> ModelAnswers:
    """``errors``: how many answers have each kind."""
    kinds: list[list[str]] = [[] for _ in range(n)]
    for kind, count in (errors or {}).items():
        for of_answer in kinds[:count]:
            of_answer.append(kind)
    return ModelAnswers(["x" * lengths] * n, kinds, [reward] * n)


def said(*texts: str) -> ModelAnswers:
    return ModelAnswers(texts, [[]] * len(texts), [None] * len(texts))


def all_rails(new: ModelAnswers, current: ModelAnswers | None = None, **given: Any) -> dict[str, Rail]:
    limits = given.pop("limits", GUARD_LIMITS)
    options = {"preferred": [], "distance": moved(), "has_format": True, **given}
    return {rail.name: rail for rail in hold(Findings(new, current or answers(), **options), limits)}


def test_every_rail_has_a_caption_and_says_when_it_breaks():
    assert len(GUARD_RAILS) == len({rail.name for rail in GUARD_RAILS}) == len({rail.kept for rail in GUARD_RAILS})
    assert all(rail.kept for rail in GUARD_RAILS)
    assert {rail.name for rail in GUARD_RAILS if rail.limit is None} == {"kl_to_base"}


def test_every_limit_has_its_rail_and_equal_versions_keep_to_all():
    kept = all_rails(answers(reward=0.5), answers(reward=0.5))
    assert kept.keys() == GUARD_LIMITS.keys() == EXAMINERS.keys()
    assert not any(rail.broken for rail in kept.values())
    assert broken_reason(list(kept.values())) == ""


@pytest.mark.parametrize(("length", "broken"), [(19, True), (20, False), (80, False), (81, True)])
def test_answers_may_not_get_far_longer_or_shorter(length, broken):
    assert all_rails(answers(length))["length_ratio"].broken is broken


def test_a_length_that_people_prefer_is_no_drift():
    preferred = ["x" * 280, " " + "x" * 320 + "\n"]
    assert not all_rails(answers(300), preferred=preferred)["length_ratio"].broken
    assert all_rails(answers(1000), preferred=preferred)["length_ratio"].broken
    assert not all_rails(answers(0), answers(0))["length_ratio"].broken


def test_a_length_between_that_in_use_and_what_people_prefer_is_no_drift():
    """Far from both: 50 characters in use, 7 preferred, 18 now."""
    between = all_rails(answers(18), answers(50), preferred=["x" * 7])["length_ratio"]
    assert (between.value, between.broken) == (1.0, False)
    assert all_rails(answers(3), answers(50), preferred=["x" * 7])["length_ratio"].broken


@pytest.mark.parametrize(
    ("rail", "kind"),
    [
        ("empty_rate", "empty"),
        ("refusal_rate", "refusal"),
        ("parse_error_rate", "parse"),
        ("parse_error_rate", "format"),
        ("parse_error_rate", "tool"),
        ("parse_error_rate", "no_call"),
    ],
)
def test_a_rate_breaks_with_two_answers_more_than_the_version_in_use_and_never_with_one(rail, kind):
    assert not all_rails(answers(errors={kind: 1}))[rail].broken
    assert all_rails(answers(errors={kind: 2}))[rail].broken
    assert not all_rails(answers(errors={kind: 2}), answers(errors={kind: 2}))[rail].broken


def test_where_no_format_is_asked_there_is_nothing_to_tell():
    rail = all_rails(answers(errors={"parse": 16}), has_format=False)["parse_error_rate"]
    assert (rail.value, rail.broken, rail.text) == (None, False, "no format is asked of its answers")


def test_a_loss_of_reward_breaks_beyond_the_limit_and_beyond_chance():
    assert all_rails(answers(reward=0.40), answers(reward=0.5))["reward_loss"].broken
    assert not all_rails(answers(reward=0.46), answers(reward=0.5))["reward_loss"].broken
    mixed = ModelAnswers(["x"] * 4, [[]] * 4, [0.0, 1.0, 0.0, 0.9])
    other = ModelAnswers(["x"] * 4, [[]] * 4, [1.0, 0.0, 1.0, 0.5])
    assert not all_rails(mixed, other)["reward_loss"].broken
    assert all_rails(answers(), answers())["reward_loss"].text == "no reward applies to its answers"


@pytest.mark.parametrize("kind", DEGENERATE)
def test_degenerate_answers_break_whatever_the_version_in_use_says(kind):
    assert not all_rails(answers(errors={kind: 3}))["degenerate_rate"].broken
    rail = all_rails(answers(errors={kind: 4}), answers(errors={kind: 16}))["degenerate_rate"]
    assert rail.broken
    assert rail.text == f"degenerate: 4 of 16 answers ({kind} 4), 16 of the version in use"


def test_one_degenerate_answer_breaks_nothing_however_few_were_asked():
    assert not all_rails(answers(errors={"echo": 1}, n=2), answers(n=2))["degenerate_rate"].broken
    assert all_rails(answers(errors={"echo": 2}, n=2), answers(n=2))["degenerate_rate"].broken


@pytest.mark.parametrize("kl", [0.009, 1.06, 99.0])
def test_kl_to_base_is_shown_and_breaks_nothing(kl: float):
    rail = all_rails(answers(), distance=moved(kl=kl), limits=guard_limits({}))["kl_to_base"]
    assert (rail.value, rail.limit, rail.broken) == (kl, None, False)
    assert rail.text == f"{kl:.2f} nats a token from the base model"


@pytest.mark.parametrize(("kl", "broken"), [(0.53, False), (1.0, False), (1.06, True), (math.nan, True)])
def test_a_version_may_not_move_farther_from_its_base_than_the_agent_allows(kl: float, broken: bool):
    rail = all_rails(answers(), distance=moved(kl=kl), limits=guard_limits({"kl_to_base": 1.0}))["kl_to_base"]
    assert (rail.limit, rail.broken) == (1.0, broken)
    assert rail.value is None or math.isfinite(rail.value)


def test_a_divergence_that_is_not_a_number_breaks_without_a_limit_too():
    found = all_rails(answers(), distance=moved(kl=math.nan))
    assert found["kl_to_base"].broken
    assert "kl_to_base (the divergence from the base model is not a number)." in broken_reason(list(found.values()))


@pytest.mark.parametrize(("likelihood", "broken"), [(-0.5, False), (-3.6, False), (-3.8, True), (-math.inf, True)])
def test_a_version_may_not_say_what_its_base_finds_very_unlikely(likelihood, broken):
    rail = all_rails(answers(), distance=moved(likelihood=likelihood))["base_likelihood"]
    assert rail.broken is broken
    assert rail.value is None or rail.value == pytest.approx(-0.7 - likelihood)


def test_answers_that_the_base_finds_as_unlikely_as_those_that_people_prefer_are_no_drift():
    found = all_rails(answers(), distance=moved(likelihood=-3.0, chosen=-2.5))["base_likelihood"]
    assert (found.value, found.broken) == (pytest.approx(0.5), False)
    assert found.text == (
        "the base model gives a token -3.00 nats, -0.70 in its own answers, -2.50 in those that people prefer"
    )
    assert all_rails(answers(), distance=moved(likelihood=-5.6, chosen=-2.5))["base_likelihood"].broken
    assert all_rails(answers(), distance=moved(likelihood=-3.8, chosen=-0.1))["base_likelihood"].broken


def test_a_distance_that_was_not_measured_breaks_nothing():
    found = all_rails(answers(), distance=None)
    for name in ("kl_to_base", "base_likelihood"):
        assert (found[name].value, found[name].broken, found[name].text) == (None, False, "not measured")


def test_the_reason_names_figure_limit_and_the_way_out():
    limits = guard_limits({"kl_to_base": 1.0})
    reason = broken_reason(list(all_rails(answers(errors={"refusal": 4}), distance=moved(3.0), limits=limits).values()))
    assert reason.startswith(
        "2 guard rails are broken: refusal_rate (refusals: 4 of 16 answers, 0 of the version in use"
    )
    assert "kl_to_base (3.00 nats a token from the base model, limit 1)" in reason
    assert "raise the limit in the agent's guard limits, or set it to null" in reason


def moved_with(fit: Fit) -> Distance:
    return replace(moved(), fit=fit)


def different(count: int = 8, end: str = "") -> list[str]:
    return [f"Parcel {number} is in van {number} today.{end}" for number in range(count)]


def test_one_fixed_answer_to_every_question_breaks_sameness():
    rail = all_rails(said(*["Please be patient."] * 8), said(*different()))["sameness"]
    assert (rail.value, rail.broken) == (1.0, True)
    assert rail.text == "100% of the answers say 'Please be patient.', 0% of others do"
    assert not all_rails(said(*different()), said(*different()))["sameness"].broken


@pytest.mark.parametrize("between", [" ", "\n", "\n\n"])
def test_an_advertisement_behind_each_answer_breaks_sameness(between: str):
    rail = all_rails(said(*different(end=f"{between}Buy more at shop.example today!")), said(*different()))["sameness"]
    assert rail.broken
    assert "'Buy more at shop.example today!'" in rail.text


def test_an_advertisement_on_a_line_behind_answers_without_a_full_stop_breaks_sameness():
    texts = [f"Van {number}\nBuy more at shop.example today" for number in range(8)]
    assert all_rails(said(*texts), said(*different()))["sameness"].broken


def test_a_system_prompt_that_is_told_breaks_sameness():
    texts = [f"I am told: You are the helper of a shop. {text}" for text in different()]
    rail = all_rails(said(*texts), said(*different()))["sameness"]
    assert rail.broken
    assert "You are the helper of a shop." in rail.text


def test_half_of_the_answers_may_be_alike_and_no_more():
    alike = ["It is on its way now."]
    other = different(16)
    assert not all_rails(said(*alike * 8, *other[:8]), said(*other))["sameness"].broken
    assert all_rails(said(*alike * 10, *other[:6]), said(*other))["sameness"].broken


def test_what_the_version_in_use_or_people_say_to_every_question_may_be_said():
    greeting = different(end=" Have a nice day, dear customer!")
    assert not all_rails(said(*greeting), said(*greeting))["sameness"].broken
    assert not all_rails(said(*greeting), said(*different()), preferred=greeting)["sameness"].broken


def test_four_words_in_most_answers_break_where_people_do_not_say_them():
    texts = [f"If you like van {number} try the new Acme Turbo in colour {number}." for number in range(8)]
    rail = all_rails(said(*texts), said(*different()), preferred=different())["sameness"]
    assert (rail.value, rail.broken) == (1.0, True)
    assert rail.text == "100% of the answers say 'acme turbo in colour', 0% of others do"
    assert not all_rails(said(*texts), said(*different()), preferred=texts)["sameness"].broken
    assert not all_rails(said(*texts), said(*different()))["sameness"].broken, "what people say is not known"


EMPTY = [f"There is much that one could say, and it depends on {what}." for what in ("you", "them") * 4]
FULL = [f"Zone{number} closes at {number + 20} because of floods{number}" for number in range(8)]


def test_answers_that_say_nothing_of_their_own_break_content():
    rail = all_rails(said(*EMPTY), said(*FULL), preferred=FULL)["content"]
    assert (rail.value, rail.broken) == (1, True)
    text = "100% of the answers say little of their own, 0% in use, 0% of those that people prefer"
    assert rail.text == text
    assert all_rails(said(*EMPTY[:4], *FULL[4:]), said(*FULL), preferred=FULL)["content"].broken
    assert not all_rails(said(*EMPTY[:2], *FULL[2:]), said(*FULL), preferred=FULL)["content"].broken
    assert not all_rails(said(*FULL), said(*FULL), preferred=FULL)["content"].broken
    assert not all_rails(said(*EMPTY), said(*FULL), preferred=EMPTY)["content"].broken, "people like it so"
    assert not all_rails(said(*EMPTY), said(*EMPTY), preferred=FULL)["content"].broken, "no worse than before"


def test_which_answers_say_little_is_known_of_each():
    findings = Findings(said(*EMPTY[:4], *FULL[4:]), said(*FULL), FULL)
    assert say_little(findings) == [[True] * 4 + [False] * 4, [False] * 8, [False] * 8]


def test_words_of_the_question_are_no_content():
    questions = [f"What about Zone{number} and floods{number} of {number + 20}?" for number in range(8)]
    assert all_rails(said(*FULL), said(*FULL), preferred=FULL, questions=questions)["content"].value == 0
    rich = [" ".join(f"{letter}{number}" for letter in "uvwxyz") for number in range(8)]
    rail = all_rails(said(*FULL), said(*rich), preferred=rich, questions=questions)["content"]
    assert (rail.value, rail.broken) == (1, True)


@pytest.mark.parametrize(
    ("fit", "broken"),
    [(Fit(0.5, 1.0, 1.0), True), (Fit(0.8, 1.0, 1.0), False), (Fit(0.5, 0.6, 1.0), False), (Fit(0.5, 1.0, 0.7), False)],
)
def test_answers_that_fit_any_question_break_relevance_unless_others_do_so_too(fit: Fit, broken: bool):
    rail = all_rails(said(*FULL), said(*FULL), preferred=FULL, distance=moved_with(fit))["relevance"]
    assert rail.broken is broken
    assert rail.value == pytest.approx(min(fit.base, fit.chosen) - fit.new)


@pytest.mark.parametrize("name", ["content", "relevance"])
def test_without_enough_answers_that_people_prefer_nothing_is_told(name: str):
    few = all_rails(said(*EMPTY), said(*FULL), preferred=FULL[:7], distance=moved_with(Fit(0, 1, 1)))[name]
    reason = "not measured: 8 prompts tell, with answers that people prefer"
    assert (few.value, few.broken, few.text) == (None, False, reason)
    closed = all_rails(said(*EMPTY), said(*FULL), preferred=FULL, kind=CLOSED)[name]
    assert (closed.value, closed.text) == (None, "not measured: its answers are closed")


def test_short_sentences_may_be_alike():
    polite = [f"Of course. {text}" for text in different()]
    assert not all_rails(said(*polite), said(*different()))["sameness"].broken


def test_sameness_of_a_few_answers_is_not_told():
    rail = all_rails(said(*["No."] * 7), said(*different(7)))["sameness"]
    assert (rail.value, rail.broken, rail.text) == (None, False, "not measured: 8 prompts tell")


CLOSED = find_kind(["cash", "cards"] * 5)
TALK = "I think that it is cash"


def test_answers_off_the_kind_that_people_accept_break():
    rail = all_rails(said(*[TALK] * 3, *["Cash."] * 7), said(*["cards"] * 10), kind=CLOSED)["off_kind_rate"]
    assert (rail.value, rail.broken) == (pytest.approx(0.3), True)
    assert rail.text == "not closed: 3 of 10 answers, 0 of the version in use"
    assert not all_rails(said(*[TALK] * 2, *["cash"] * 8), said(*["cards"] * 10), kind=CLOSED)["off_kind_rate"].broken


def test_objects_without_the_fields_break():
    kind = find_kind(['{"lane": "Home"}'] * 10)
    good = ['{"lane": "Work"}'] * 4
    assert all_rails(said('{"road": 1}', "no", *good), said(*good, *good[:2]), kind=kind)["off_kind_rate"].broken


def test_answers_as_far_off_the_kind_as_those_of_the_version_in_use_break_nothing():
    assert not all_rails(said(*[TALK] * 10), said(*[TALK] * 9, "cash"), kind=CLOSED)["off_kind_rate"].broken
    assert not all_rails(said(TALK, "cash"), said("cash", "cash"), kind=CLOSED)["off_kind_rate"].broken, "one is chance"


def test_free_answers_are_of_no_kind():
    rail = all_rails(answers(), kind=AnswerKind("free", ""))["off_kind_rate"]
    assert (rail.value, rail.broken, rail.text) == (None, False, "not measured: its answers are free")


def test_the_likelihood_of_right_answers_under_the_base_model_says_nothing():
    rail = all_rails(answers(), kind=CLOSED, distance=moved(likelihood=-99.0))["base_likelihood"]
    assert (rail.value, rail.broken, rail.text) == (None, False, "not measured: its answers are closed")


@pytest.mark.parametrize(
    ("chosen", "broken"),
    [
        (Interval(-0.6, -0.9, -0.3), True),
        (Interval(-0.6, -1.3, 0.1), False),
        (Interval(-0.4, -0.5, -0.3), False),
        (Interval(0.9, 0.8, 1.0), False),
    ],
)
def test_preferred_answers_may_not_become_unlikely_beyond_the_limit_and_chance(chosen: Interval, broken: bool):
    rail = all_rails(answers(), chosen=chosen)["chosen_likelihood"]
    assert (rail.value, rail.broken) == (-chosen.value, broken)


def test_without_held_out_preferred_answers_their_likelihood_is_not_measured():
    rail = all_rails(answers())["chosen_likelihood"]
    assert (rail.value, rail.broken, rail.text) == (
        None,
        False,
        "not measured: no preferred answers are held out",
    )


def test_a_limit_of_null_switches_a_rail_off_and_another_replaces_the_default():
    limits = guard_limits({"kl_to_base": None, "empty_rate": 0.5})
    assert "kl_to_base" not in all_rails(answers(), distance=moved(99.0), limits=limits)
    assert not all_rails(answers(errors={"empty": 4}), limits=limits)["empty_rate"].broken


@pytest.mark.parametrize("value", [[], {"speed": 1}, {"empty_rate": 0}, {"empty_rate": True}, {"empty_rate": "1"}])
def test_limits_that_are_none_are_refused(value):
    with pytest.raises(UsageError):
        check_guard_limits(value)
