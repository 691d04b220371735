import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rl.collect.feedback.write import compare, correct
from rl.dataset_builder import DataOptions, freeze, survey, training_plan
from rl.dataset_builder.plan.figures import figures
from rl.dataset_builder.plan.plan import NAMED, accepted_plan
from rl.models import Agent
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate, rate_prompts, rated
from tests.dataset_builder.read.test_judged import propose


def rows(agent) -> dict[str, int]:
    return {plan.method: plan.rows for plan in training_plan(agent).methods}


def test_an_agent_without_answers_has_nothing(agent):
    assert set(rows(agent).values()) == {0}
    assert training_plan(agent).advice.method == ""


def test_the_counts_are_what_freezing_writes(agent, data_dir):
    rate_prompts(agent, 12)
    for number in range(12):
        make_trace(agent, f"Question {number}?", "Unrated.", reward=0.9)
        make_trace(agent, f"Question {number}?", "Unrated, poor.", reward=number / 12)
    rated(agent, "Lonely?", "Yes.", 1)
    make_trace(agent, "Single?", reward=0.3)
    counted = rows(agent)
    for method in ("dpo", "kto", "grpo", "reward_model", "reward"):
        frozen = freeze(agent, DataOptions(), method=method)
        assert frozen.train_rows + frozen.heldout_rows == counted[method], method


def test_pairs_are_counted_up_to_the_limit_of_a_prompt(agent):
    for value, count in ((1, 3), (0, 4)):
        for number in range(count):
            rated(agent, "Much rated?", f"{value} {number}", value)
    assert (
        rows(agent)["dpo"] == survey(agent, DataOptions()).train_rows + survey(agent, DataOptions()).heldout_rows == 5
    )


@pytest.mark.database
def test_picks_and_edited_answers_are_pairs_of_whole_answers_only(agent, trace):
    other = make_trace(agent, response="Another.")
    compare(trace, other, choice="left", rater="alice", source="test")
    compare(trace, other, choice="tie", rater="bob", source="test")
    for text in ("On Friday.", "Soon."):
        correct(trace, text=text, rater="alice", source="test")
    assert (rows(agent)["dpo"], rows(agent)["sft"]) == (2, 2)
    agent.pair_type = Agent.PairType.WIDGET
    assert rows(agent)["dpo"] == 0


def test_superseded_ratings_and_other_agents_are_not_counted(agent, trace):
    rate(trace, 0)
    rate(trace, 1)
    rate(make_trace(Agent.objects.create(name="other")), 1)
    found = figures(agent)
    assert (found.good, found.bad, found.ratings) == (1, 0, 1)


@pytest.mark.database
def test_proposed_labels_count_from_the_threshold_that_a_person_chose(agent):
    for number, confidence in enumerate((0.95, 0.6)):
        propose(make_trace(agent, f"{number}?"), True, confidence)
    assert rows(agent)["kto"] == 0
    agent.auto_label_threshold = 0.9
    assert rows(agent)["kto"] == 1


def test_only_so_much_is_looked_at_and_the_plan_says_so(agent, monkeypatch):
    rate_prompts(agent, 4)
    for number in range(6):
        make_trace(agent, f"{number}?", reward=0.5)
    plan = training_plan(agent)
    assert {one.method: one.how for one in plan.methods} == {
        "mpo": "about",
        "dpo": "about",
        "kto": "about",
        "grpo": "about",
        "reward_model": "about",
        "reward": "about",
        "sft": "about",
    }
    monkeypatch.setattr("rl.dataset_builder.plan.figures.RATINGS", 4)
    monkeypatch.setattr("rl.dataset_builder.plan.figures.REWARDED", 5)
    plan = training_plan(agent)
    assert {one.how for one in plan.methods if one.rows} == {"at least"}
    assert (plan.figures.ratings, plan.figures.rewarded) == (4, 5)
    assert set(plan.remarks) == {"at least"}


def test_scored_answers_without_a_pair_are_rows_of_a_reward_model(agent, data_dir):
    for number in range(9):
        rate(make_trace(agent, f"Question {number}?", reward=0.5 if number % 2 else None), number / 10, scale="score")
    for number in range(4):
        make_trace(agent, f"Rewarded {number}?", reward=number / 10)
    frozen = freeze(agent, DataOptions(), method="reward_model")
    [plan] = [one for one in training_plan(agent).methods if one.method == "reward_model"]
    assert plan.rows == frozen.train_rows + frozen.heldout_rows == 13
    assert (plan.how, plan.made_of) == ("about", "0 pairs of rewards, 13 single scored answers")
    make_trace(agent, "Rewarded 3?", "Another.", reward=0.9)
    [plan] = [one for one in training_plan(agent).methods if one.method == "reward_model"]
    assert (plan.rows, plan.how, plan.made_of) == (13, "at least", "1 pair of rewards, 12 single scored answers")


def test_edited_answers_that_are_rated_are_not_counted_twice(agent, data_dir):
    for number in range(12):
        trace = make_trace(agent, f"Question {number}?")
        rate(trace, 0)
        if number < 5:
            correct(trace, text="Better.", rater="alice", source="test")
    frozen = freeze(agent, DataOptions(), method="reward_model")
    assert rows(agent)["reward_model"] == frozen.train_rows + frozen.heldout_rows == 12


def test_empty_answers_that_are_rated_are_not_counted(agent):
    rate_prompts(agent, 2)
    rated(agent, "Empty?", "", 1)
    assert rows(agent)["kto"] == 4


def test_a_proposal_for_what_people_rated_is_not_counted_again(agent, data_dir):
    agent.auto_label_threshold = 0.9
    for event in rate_prompts(agent, 6):
        propose(event.trace, True, 0.95)
    propose(make_trace(agent, "Unrated?"), True, 0.95)
    frozen = freeze(agent, DataOptions(), method="kto")
    assert rows(agent)["kto"] == frozen.train_rows + frozen.heldout_rows == 13


def test_picks_that_found_both_bad_are_two_bad_answers(agent, data_dir):
    agent.rater_cap = 1
    for number in range(6):
        one, other = (make_trace(agent, f"Question {number}?", text) for text in ("Yes.", "No."))
        compare(one, other, choice="both_bad", rater="alice", source="test")
    rate(one, 1, "bob")
    rate(one, 1, "carol")
    rated(agent, "Fine?", "Fine.", 1)
    frozen = freeze(agent, DataOptions(val_split=0), method="kto")
    assert frozen.train_rows == 13
    assert rows(agent)["dpo"] == 0
    assert training_plan(agent).figures.judged == 14  # one answer was rated as well


@pytest.mark.database
def test_the_plan_leaves_out_what_is_over_the_cap_of_one_rater(agent, data_dir):
    agent.rater_cap = 0.5
    for rater, count in (("alice", 60), ("bob", 20)):
        for number in range(count):
            for value in (1, 0):
                rated(agent, f"{rater} asks {number}?", f"Answer {number} {value}.", value, rater)
    for method in ("dpo", "kto", "reward_model"):
        frozen = freeze(agent, DataOptions(), method=method)
        [plan] = [plan for plan in training_plan(agent).methods if plan.method == method]
        assert plan.rows == pytest.approx(frozen.train_rows + frozen.heldout_rows, rel=0.1), method
        assert "over the cap of one rater" in plan.made_of
    assert rows(agent)["mpo"] == 80
    agent.rater_cap = 1
    assert rows(agent)["dpo"] == 80


def test_rewards_that_differ_by_rounding_only_are_equal(agent):
    for number, reward in enumerate((0.1 + 0.2, 0.3)):
        make_trace(agent, "Which?", f"Answer {number}.", reward=reward)
    assert (figures(agent).differing_prompts, figures(agent).equal_prompts) == (0, 1)


@pytest.mark.parametrize("count", [2, 20])
def test_the_number_of_queries_does_not_grow(agent, count):
    agent.auto_label_threshold = 0.9
    rate_prompts(agent, count)
    with CaptureQueriesContext(connection) as queries:
        training_plan(agent)
    assert len(queries) == 7


def test_a_plan_can_be_written_as_json(agent):
    rate_prompts(agent, 12)
    document = json.loads(json.dumps(training_plan(agent).as_dict()))
    assert document["advice"]["method"] == "mpo"
    assert document["methods"][1] == {
        "method": "dpo",
        "rows": 12,
        "how": "about",
        "made_of": "12 of ratings, 0 of picks and edited answers",
        "missing": "",
        "ready": True,
    }


def test_classes_with_few_answers_are_named_the_rarest_first(agent: Agent):
    for name, count in (("cards", 12), ("cash", 4), ("identity", 2)):
        for number in range(count):
            rated(agent, f"{name} {number}?", name.title(), 1)
    plan = accepted_plan(agent)
    assert plan.sentences == [
        "answers are closed: 18 accepted answers are 3 distinct ones",
        "2 of `identity`: 8 more would help",
        "4 of `cash`: 6 more would help",
    ]


def test_the_list_is_bounded(agent: Agent):
    for name in range(NAMED + 3):
        for number in range(2):
            rated(agent, f"{name} {number}?", f"class {name}", 1)
    plan = accepted_plan(agent)
    assert (len(plan.rare), plan.unnamed) == (NAMED, 3)
    assert plan.sentences[-1] == "3 more classes with fewer than 10"


def test_free_answers_have_no_classes(agent: Agent):
    for number in range(12):
        rated(agent, f"Question {number}?", f"Answer number {number}.", 1)
    assert accepted_plan(agent).sentences == ["answers are free: 12 of 12 accepted answers are distinct"]
    assert accepted_plan(agent).as_dict()["rare"] == []


BROKEN_OFF = {"finish_reason": {"finish_reason": "length"}, "complete": {"complete": False}, "error": {"error": "gone"}}


@pytest.mark.database
@pytest.mark.parametrize("details", [*BROKEN_OFF.values(), {"split": "never"}], ids=[*BROKEN_OFF, "split"])
def test_what_no_row_takes_is_not_counted_as_good(agent, data_dir, details):
    for number in range(12):
        for text, value in (("Cut off", 1), ("No.", 0)):
            trace = make_trace(agent, f"{number}?", text, details=details if value else {}, reward=value)
            rate(trace, value)
    plan = training_plan(agent)
    counted = rows(agent)
    for method in ("mpo", "dpo", "kto", "grpo", "reward_model"):
        found = survey(agent, DataOptions(), method=method)
        assert (method, counted[method]) == (method, found.train_rows + found.heldout_rows)
    assert plan.advice.method == ""


@pytest.mark.database
def test_a_pick_whose_winner_broke_off_is_no_pair(agent):
    for number, side in enumerate(("left", "right", "both_bad", "tie")):
        cut = make_trace(agent, f"{number}?", "Cut off", details={"finish_reason": "length"})
        whole = make_trace(agent, f"{number}?", "Whole.")
        left, right = (cut, whole) if side != "right" else (whole, cut)
        compare(left, right, choice=side, rater="ann", source="test")
        compare(right, left, choice=side, rater="bob", source="test")
    found = figures(agent)
    assert (found.picks, found.both_bad) == (2, 2)


def test_good_answers_alone_are_imitated(agent, data_dir):
    for number in range(12):
        rated(agent, f"Question {number}?", f"Answer {number}.", 1)
    plan = training_plan(agent)
    frozen = freeze(agent, DataOptions(), method=plan.advice.method)
    assert (plan.advice.method, rows(agent)["sft"]) == ("sft", frozen.train_rows + frozen.heldout_rows)
