import pytest

from rl.base.errors import UsageError
from rl.config.reward_weights import DECISION_WEIGHTS, check_decision_weights, check_reward_weights, decision_weights


def test_the_table_of_a_type_is_found_in_any_case():
    assert decision_weights("filer") == DECISION_WEIGHTS["FILER"]
    assert decision_weights("planner") == {"immediate": {"userFeedback": 1.0}}


def test_own_weights_replace_single_ones_and_add_others():
    own = decision_weights("LIBRARIAN", {"delayed": {"conflictPrevention": 1.0}, "quality": {"tone": 0.2}})
    assert own["delayed"] == {**DECISION_WEIGHTS["LIBRARIAN"]["delayed"], "conflictPrevention": 1.0}
    assert own["quality"] == {"tone": 0.2}
    assert own["immediate"] == {"userFeedback": 1.0}


@pytest.mark.parametrize("weights", [{}, {"efficiency": 0}, {"efficiency": 100, "brief": 0.5}])
def test_weights_from_0_to_100_are_taken(weights):
    check_reward_weights(weights)
    check_decision_weights({"delayed": weights})


@pytest.mark.parametrize("weight", [-0.1, 100.1, "1", None, True, float("nan"), float("inf"), [1], 10**400])
def test_other_weights_are_refused_by_name(weight):
    with pytest.raises(UsageError, match="the weight of efficiency must be a number from 0"):
        check_reward_weights({"efficiency": weight})
    with pytest.raises(UsageError, match="the weight of delayed.efficiency must be a number from 0"):
        check_decision_weights({"delayed": {"efficiency": weight}})


@pytest.mark.parametrize("value", [[], "x", None, 1])
def test_what_is_no_object_is_refused(value):
    for check in (check_reward_weights, check_decision_weights):
        with pytest.raises(UsageError, match="must be a JSON object"):
            check(value)
    with pytest.raises(UsageError, match="delayed must be a JSON object"):
        check_decision_weights({"delayed": value})


def test_an_unknown_time_scale_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="unknown time scale 'later'; known: immediate, delayed"):
        check_decision_weights({"later": {}})
