import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.base.errors import UsageError
from rl.base.records import RatedAnswer
from rl.data_formatter import build_fixture_dpo_pairs, build_widget_dpo_pairs, opinions
from rl.data_formatter.widgets import CLEAR_MAJORITY, MAJORITY_THUMBS
from tests.data_formatter.answers import SCENARIOS, answer, widget


def widget_pairs(*entries: RatedAnswer, **options):
    skipped: Counter[str] = Counter()
    return build_widget_dpo_pairs(entries, SCENARIOS, skipped=skipped, **options), skipped


def fixture_pairs(*entries: RatedAnswer, descriptions=(), **options):
    skipped: Counter[str] = Counter()
    return build_fixture_dpo_pairs(entries, dict(descriptions), skipped=skipped, **options), skipped


def test_a_liked_scenario_is_chosen_over_a_disliked_one():
    (pair,), skipped = widget_pairs(
        widget(1, "comparison", "bars", up=1, size="hero"), widget(2, "kpi", "live", down=1)
    )
    assert (pair.chosen, pair.rejected) == ("comparison (hero)", "kpi (normal)")
    assert (pair.question_id, pair.scenario) == ("q1", None)
    assert pair.metadata == {"pair_type": "widget", "confidence": 1.0, "feedback": [10, 20]}
    assert not skipped


def test_an_answer_lists_all_liked_scenarios_the_largest_first():
    pairs, _ = widget_pairs(
        widget(1, "kpi", "live", up=1, size="compact"),
        widget(2, "comparison", "bars", up=1, size="hero"),
        widget(3, "trend", "line", down=1, size="expanded"),
    )
    assert {pair.chosen for pair in pairs} == {"comparison (hero), kpi (compact)"}
    assert {pair.rejected for pair in pairs} == {
        "trend (expanded), kpi (compact)",
        "comparison (hero), trend (expanded)",
    }


def test_both_answers_have_the_same_number_of_widgets():
    entries = [
        widget(i, name, "x", up=i % 2, down=1 - i % 2)
        for i, name in enumerate(["alerts", "comparison", "kpi", "trend"])
    ]
    pairs, _ = widget_pairs(*entries)
    assert len(pairs) == 4
    assert all(pair.chosen.count("(") == pair.rejected.count("(") == 2 for pair in pairs)


def test_a_pair_names_the_feedback_on_every_scenario_it_lists():
    pairs, _ = widget_pairs(
        widget(1, "kpi", "live", up=1), widget(2, "comparison", "bars", up=2), widget(3, "trend", "line", down=1)
    )
    assert all(pair.metadata["feedback"] == [10, 20, 21, 30] for pair in pairs)


def test_a_scenario_liked_in_one_fixture_and_disliked_in_another_is_no_evidence():
    pairs, skipped = widget_pairs(
        widget(1, "comparison", "bars", up=1),
        widget(2, "comparison", "waterfall", down=1),
        widget(3, "kpi", "live", down=1),
    )
    assert pairs == []
    assert skipped == {opinions.MIXED_SCENARIO: 1, opinions.ONLY_DISLIKED: 1}


def majority(*up_and_down: tuple[int, int], **options):
    """The pairs of a scenario whose fixtures have these thumbs, against a liked one."""
    skipped: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    fixtures = [widget(i, "comparison", f"f{i}", up, down) for i, (up, down) in enumerate(up_and_down, 1)]
    entries = [*fixtures, widget(9, "kpi", "live", up=1)]
    return build_widget_dpo_pairs(entries, SCENARIOS, skipped=skipped, taken=taken, **options), skipped, taken


def test_a_clear_majority_of_all_thumbs_on_a_scenario_is_evidence():
    assert (CLEAR_MAJORITY, MAJORITY_THUMBS) == (0.75, 4)
    (pair,), skipped, taken = majority((0, 2), (0, 1), (1, 0))
    assert (pair.chosen, pair.rejected) == ("kpi (normal)", "comparison (normal)")
    assert pair.metadata == {"pair_type": "widget", "confidence": 0.75, "feedback": [10, 11, 20, 30, 90]}
    assert (skipped, taken) == ({}, {opinions.BY_MAJORITY: 1})


@pytest.mark.parametrize(
    ("thumbs", "options"),
    [
        ([(0, 2), (1, 0)], {}),  # too few
        ([(0, 3), (2, 0)], {}),  # not clear
        ([(0, 3), (1, 0), (1, 1)], {}),  # a tie's thumbs count
        ([(0, 3), (1, 0)], {"min_confidence": 0.8}),
    ],
)
def test_without_a_clear_majority_a_scenario_stays_in_dispute(thumbs, options):
    pairs, skipped, taken = majority(*thumbs, **options)
    assert (pairs, taken) == ([], {})
    assert skipped[opinions.MIXED_SCENARIO] == 1


def test_a_draw_about_one_fixture_leaves_the_verdict_to_the_others():
    (pair,), skipped = widget_pairs(
        widget(1, "comparison", "bars", up=1),
        widget(2, "comparison", "pie", up=2, down=2),
        widget(3, "kpi", "live", down=1),
    )
    assert pair.chosen == "comparison (normal)"
    assert pair.metadata["feedback"] == [10, 30]
    assert skipped == {opinions.TIE: 1}


def test_the_majority_of_the_raters_decides_and_the_pair_knows_how_sure_it_is():
    (pair,), _ = widget_pairs(widget(1, "comparison", "bars", up=3, down=1), widget(2, "kpi", "live", down=1))
    assert pair.metadata["confidence"] == 0.75
    pairs, skipped = widget_pairs(
        widget(1, "comparison", "bars", up=3, down=1), widget(2, "kpi", "live", down=1), min_confidence=0.8
    )
    assert pairs == []
    assert skipped == {opinions.LOW_CONFIDENCE: 1, opinions.ONLY_DISLIKED: 1}


def test_the_same_fixture_in_two_runs_is_judged_by_all_its_raters():
    _, skipped = widget_pairs(
        widget(1, "comparison", "bars", up=1), widget(2, "comparison", "bars", down=1), widget(3, "kpi", "live", down=1)
    )
    assert skipped == {opinions.TIE: 1, opinions.ONLY_DISLIKED: 1}


def test_the_size_is_the_usual_one_and_the_larger_of_two_equally_usual_ones():
    (pair,), _ = widget_pairs(
        widget(1, "comparison", "a", up=1, size="compact"),
        widget(2, "comparison", "b", up=1, size="hero"),
        widget(3, "kpi", "c", down=1, size="compact"),
        widget(4, "kpi", "d", down=1, size="compact"),
        widget(5, "kpi", "e", down=1, size="hero"),
    )
    assert (pair.chosen, pair.rejected) == ("comparison (hero)", "kpi (compact)")


def test_questions_do_not_mix():
    pairs, skipped = widget_pairs(
        widget(1, "comparison", "bars", up=1, question="q1"), widget(2, "kpi", "live", down=1, question="q2")
    )
    assert pairs == []
    assert skipped == {opinions.ONLY_LIKED: 1, opinions.ONLY_DISLIKED: 1}


def test_the_limit_keeps_the_surest_pairs_and_counts_the_others():
    entries = [widget(1, "comparison", "bars", up=9, down=1), widget(2, "alerts", "list", up=2, down=1)]
    entries += [widget(3, "kpi", "live", down=4, up=1), widget(4, "trend", "line", down=3, up=2)]
    pairs, skipped = widget_pairs(*entries, max_pairs_per_question=1)
    assert [pair.metadata["confidence"] for pair in pairs] == [0.8]
    assert "kpi" in pairs[0].rejected
    assert skipped == {opinions.OVER_LIMIT: 3}


def test_what_cannot_be_used_is_counted():
    pairs, skipped = widget_pairs(
        answer(1, "no widget", up=1),
        widget(2, "retired", "x", up=1),
        widget(3, "kpi", "live"),
        widget(4, "trend", "y", up=1),
    )
    assert pairs == []
    assert skipped == {
        opinions.NO_WIDGET: 1,
        opinions.UNKNOWN_SCENARIO: 1,
        opinions.NOT_RATED: 1,
        opinions.ONLY_LIKED: 1,
    }


def test_the_prompt_tells_all_that_the_choice_depends_on_and_begins_alike_for_every_question():
    data = {"demoData": {"label": "Flow", "unit": "m³/h", "valueA": 7}}
    entries = [
        widget(1, "comparison", "a", up=1, data=data),
        widget(2, "kpi", "b", down=1, data={"config": {"rows": 3}}),
    ]
    entries += [widget(3, "trend", "a", up=1, question="q2"), widget(4, "kpi", "b", down=1, question="q2")]
    (first, second), _ = widget_pairs(*entries)
    assert first.prompt.splitlines()[1:] == [
        "Widgets: alerts, comparison, kpi, trend",
        "Sizes: hero, expanded, normal, compact",
        "Query: Compare the pumps",
        "Domains: industrial",
        "Entities, devices: Pump 4, Pump 5",
        "Data: Flow (m³/h), valueA",
        'Data: {"config": {"rows": 3}}',
    ]
    assert first.prompt.splitlines()[:3] == second.prompt.splitlines()[:3]


def test_odd_intents_and_large_data_do_not_break_the_prompt():
    odd = {"domains": "energy", "entities": {"devices": "Pump 4", "x": 5}}
    entry = widget(1, "comparison", "a", up=1, data={"data": "x" * 9999})
    assert entry.widget is not None
    entry = replace(entry, widget=replace(entry.widget, intent=odd))
    (pair,), _ = widget_pairs(entry, widget(2, "kpi", "b", down=1))
    assert "Domains: energy" in pair.prompt
    assert "Entities, devices: Pump 4" in pair.prompt
    assert len(pair.prompt) < 900


def test_no_scenarios_to_choose_from_is_a_mistake():
    with pytest.raises(UsageError, match="no scenarios to choose from"):
        build_widget_dpo_pairs([], [])


@pytest.mark.parametrize("options", [{"max_pairs_per_question": 0}, {"min_confidence": 1.5}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(UsageError, match="must be"):
        build_widget_dpo_pairs([], SCENARIOS, **options)


def test_every_liked_fixture_is_chosen_over_every_disliked_one():
    pairs, skipped = fixture_pairs(
        widget(1, "kpi", "a", up=1),
        widget(2, "kpi", "b", up=1),
        widget(3, "kpi", "c", down=1),
        widget(4, "kpi", "d", down=1),
    )
    assert {(pair.chosen, pair.rejected) for pair in pairs} == {("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")}
    assert {(pair.question_id, pair.scenario) for pair in pairs} == {("q1", "kpi")}
    assert not skipped


def test_fixtures_of_different_scenarios_or_questions_are_not_compared():
    pairs, skipped = fixture_pairs(
        widget(1, "kpi", "a", up=1), widget(2, "trend", "b", down=1), widget(3, "kpi", "c", down=1, question="q2")
    )
    assert pairs == []
    assert skipped == {opinions.ONLY_LIKED: 1, opinions.ONLY_DISLIKED: 2}


def test_the_fixture_prompt_lists_the_variants_with_their_descriptions():
    (pair,), _ = fixture_pairs(
        widget(1, "kpi", "live", up=1), widget(2, "kpi", "daily", down=1), descriptions={"live": "updates each second"}
    )
    assert "Widget: kpi\nVariants:\n- daily\n- live: updates each second\nQuery: Compare the pumps" in pair.prompt
    assert pair.metadata == {"pair_type": "fixture", "confidence": 1.0, "feedback": [10, 20]}


def test_at_most_five_pairs_a_question_and_scenario_that_use_as_many_fixtures_as_possible():
    entries = [widget(i, "kpi", f"f{i}", up=1) for i in range(5)] + [
        widget(i, "kpi", f"f{i}", down=1) for i in range(5, 10)
    ]
    pairs, skipped = fixture_pairs(*entries)
    assert len(pairs) == 5
    assert len({pair.chosen for pair in pairs} | {pair.rejected for pair in pairs}) == 10
    assert skipped == {opinions.OVER_LIMIT: 20}


votes = st.tuples(
    st.sampled_from(SCENARIOS), st.sampled_from("abcd"), st.integers(0, 2), st.integers(0, 2), st.sampled_from("qr")
)


@given(st.lists(votes, max_size=25), st.randoms(use_true_random=False))
def test_the_pairs_do_not_depend_on_the_order_of_the_entries(rows, rng: random.Random):
    entries = [widget(i, s, f, up, down, question=q) for i, (s, f, up, down, q) in enumerate(rows)]
    shuffled = list(entries)
    rng.shuffle(shuffled)
    assert widget_pairs(*entries) == widget_pairs(*shuffled)
    assert fixture_pairs(*entries) == fixture_pairs(*shuffled)


@given(st.lists(votes, max_size=25))
def test_one_group_at_a_time_gives_the_same_pairs(rows):
    entries = [widget(i, s, f, up, down, question=q) for i, (s, f, up, down, q) in enumerate(rows)]
    whole, _ = widget_pairs(*entries)
    parts = [pair for q in "qr" for pair in widget_pairs(*(e for e in entries if e.prompt_key == q))[0]]
    assert whole == parts
