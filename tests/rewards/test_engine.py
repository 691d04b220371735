import math
import subprocess
import sys
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rl.rewards
from rl.base.errors import Interrupted, RewardFailed, SandboxUnavailable, UsageError
from rl.rewards import REWARDS, BaseReward, RewardEngine, RewardResult, default_weights, reward_class
from rl.rewards.engine import load_rewards, normalise
from tests.rewards.records import Breaks, Fixed, rated, record

VALUES = st.one_of(st.none(), st.floats(0, 1))
WEIGHTS = st.floats(0.01, 100)
OFF = dict.fromkeys(REWARDS, 0.0)
"""Only the rewards of a test."""


def engine(*rewards: BaseReward, **options) -> RewardEngine:
    return RewardEngine(OFF, rewards=rewards, **options)


# --- the registry -----------------------------------------------------------------------------------------------------


def test_the_default_weights_are_those_that_users_know():
    assert default_weights() == {
        "code_execution": 2.0,
        "syntax_validation": 1.0,
        "tool_success": 2.0,
        "task_completion": 1.5,
        "efficiency": 0.5,
        "format_compliance": 1.0,
        "learned_reward": 1.0,
        "decision": 1.0,
        "environment": 3.0,
        "feedback": 3.0,
    }


def test_every_reward_knows_the_name_it_is_registered_under():
    assert {name: reward_class(name).name for name in REWARDS} == {name: name for name in REWARDS}


def test_an_unknown_reward_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="unknown reward 'luck'; known: code_execution, "):
        reward_class("luck")


def test_the_classes_can_be_imported_from_the_package():
    names = ("BaseReward", "RewardResult", "RewardEngine", *(path.rpartition(".")[2] for path in REWARDS.values()))
    assert all(getattr(rl.rewards, name) is not None for name in names)
    with pytest.raises(AttributeError):
        rl.rewards.LuckReward  # noqa: B018


@pytest.mark.process
def test_parser_libraries_are_loaded_only_when_a_text_needs_them():
    look = (
        "import sys, rl.rewards; rl.rewards.RewardEngine(); print({'sqlglot', 'yaml', 'markdown_it'} & {*sys.modules})"
    )
    result = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.strip() == "set()"


# --- the combined reward ----------------------------------------------------------------------------------------------


def test_the_combined_reward_is_the_weighted_mean_of_those_that_apply():
    combined = engine(Fixed("a", 1.0, 3), Fixed("b", 0.0, 1), Fixed("c", None, 50)).compute_combined(record())
    assert combined == 0.75


def test_nothing_that_applies_gives_no_reward_and_no_label():
    nothing = engine(Fixed("a", None))
    assert nothing.compute_combined(record()) is None
    assert nothing.get_binary_label(record()) is None


def test_what_only_supports_counts_beside_evidence_and_not_alone():
    support = Fixed("quick", 1.0, 1, supporting=True)
    assert engine(support, Fixed("a", None)).compute_combined(record()) is None
    assert engine(support, Fixed("a", 0.0, 3)).compute_combined(record()) == 0.25


@given(st.lists(st.tuples(VALUES, WEIGHTS), max_size=8), st.randoms())
def test_the_combined_reward_is_from_0_to_1_in_whatever_order(given_rewards, random):
    rewards = [Fixed(f"r{n}", value, weight) for n, (value, weight) in enumerate(given_rewards)]
    combined = engine(*rewards).compute_combined(record())
    random.shuffle(rewards)
    assert engine(*rewards).compute_combined(record()) == combined
    known = [reward.value for reward in rewards if reward.value is not None]
    assert (combined is None) == (not known)
    if combined is not None:
        assert 0 <= combined <= 1
        assert min(known) - 1e-9 <= combined <= max(known) + 1e-9


@given(st.lists(st.tuples(st.floats(0, 1), WEIGHTS), min_size=1, max_size=5), st.lists(WEIGHTS, max_size=5))
def test_rewards_that_abstain_never_change_the_mean(given_rewards, abstaining):
    rewards = [Fixed(f"r{n}", value, weight) for n, (value, weight) in enumerate(given_rewards)]
    silent = [Fixed(f"s{n}", None, weight) for n, weight in enumerate(abstaining)]
    assert engine(*silent, *rewards).compute_combined(record()) == engine(*rewards).compute_combined(record())


def test_a_weight_of_the_agent_replaces_the_default_and_0_switches_off():
    some = RewardEngine(
        {**OFF, "a": 1, "b": 3, "gone": 0}, rewards=[Fixed("a", 0.0), Fixed("b", 1.0), Fixed("gone", 0.0)]
    )
    assert some.compute_combined(record()) == 0.75
    assert [(result.name, result.weight) for result in some.compute_all(record())] == [("a", 1.0), ("b", 3.0)]


@pytest.mark.parametrize("weights", [{"luck": 1}, {"efficiency": -1}, {"efficiency": math.nan}, {"efficiency": True}])
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(UsageError, match="luck|efficiency"):
        RewardEngine(weights)


def test_a_reward_of_the_same_name_takes_the_place_of_the_built_in_one():
    own = RewardEngine(rewards=[Fixed("feedback", 0.25)])
    (result,) = (each for each in own.compute_all(record()) if each.name == "feedback")
    assert (result.value, result.weight) == (0.25, 1.0)


# --- what breaks ------------------------------------------------------------------------------------------------------


def test_a_reward_that_breaks_is_an_error_that_names_it():
    with pytest.raises(RewardFailed, match=r"^reward breaks: KeyError: 'no such thing'$") as caught:
        engine(Fixed("a", 1.0), Breaks()).compute_all(record())
    assert caught.value.reward == "breaks"


def test_a_reward_that_breaks_leaves_no_combined_reward():
    broken = engine(Fixed("a", 1.0), Breaks())
    assert broken.verdict(record(), broken.attempt_all(record())) == (None, None)


@pytest.mark.parametrize("value", [1.01, -0.1, math.nan, math.inf])
def test_a_value_out_of_range_is_a_failure_of_the_reward(value):
    with pytest.raises(RewardFailed, match="reward wild: gave"):
        engine(Fixed("wild", value)).compute_all(record())


@pytest.mark.parametrize("weight", [None, "heavy", -1, math.nan])
def test_a_reward_whose_own_weight_is_none_is_refused_by_name(weight):
    with pytest.raises(UsageError, match="the weight of odd must be a number"):
        engine(Fixed("odd", 1.0, weight))


class Odd(BaseReward):
    name = "odd"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def compute(self, trace):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("answer", [None, 0.5, "good"])
def test_what_is_no_result_is_a_failure_that_says_what_to_return(answer):
    with pytest.raises(RewardFailed, match=r"reward odd: gave .*; compute returns self\.gives"):
        engine(Odd(answer)).compute_all(record())


def test_a_failure_bears_the_name_of_the_reward_that_was_asked():
    """Whatever reward it asked itself."""
    with pytest.raises(RewardFailed) as caught:
        engine(Odd(RewardFailed("another", "broke"))).compute_all(record())
    assert caught.value.reward == "odd"


class NeedsBox(Fixed):
    def compute(self, trace) -> RewardResult:
        raise SandboxUnavailable("install bubblewrap")


def test_a_reward_abstains_where_there_is_no_sandbox_and_says_why():
    (result,) = engine(NeedsBox("box", 1.0)).compute_all(record())
    assert (result.value, result.reason) == (None, "install bubblewrap")


def test_an_interruption_is_no_failure_of_a_reward():
    class Interrupts(Fixed):
        def compute(self, trace) -> RewardResult:
            raise Interrupted("stop")

    with pytest.raises(Interrupted):
        engine(Interrupts("a", 1.0)).compute_all(record())


# --- groups -----------------------------------------------------------------------------------------------------------


def test_a_group_is_measured_against_its_own_mean_and_spread():
    feedback = RewardEngine({**OFF, "feedback": 1})
    group = feedback.compute_for_group([rated(1.0), rated(0.0), record(), rated(1.0), rated(0.0)])
    assert group == [1.0, -1.0, None, 1.0, -1.0]


def test_equal_answers_have_no_advantage():
    assert normalise([0.1 + 0.2, 0.3, None]) == [0.0, 0.0, None]
    assert normalise([0.7]) == [0.0]
    assert normalise([]) == []


@given(st.lists(VALUES, max_size=20))
def test_the_rewards_of_a_group_sum_to_0_with_a_spread_of_1(rewards):
    group = normalise(rewards)
    known = [reward for reward in group if reward is not None]
    assert [reward is None for reward in group] == [reward is None for reward in rewards]
    assert abs(math.fsum(known)) < 1e-6
    spread = math.sqrt(fmean(reward**2 for reward in known)) if known else 0
    assert spread == pytest.approx(1) or not any(known)


# --- labels and summary -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("combined", "label"), [(0.6, True), (0.59, False), (None, None)])
def test_a_label_is_whether_the_reward_reaches_the_threshold(combined, label):
    assert engine(Fixed("a", combined)).get_binary_label(record()) is label


def test_the_threshold_can_be_another():
    assert engine(Fixed("a", 0.6), label_threshold=0.7).get_binary_label(record()) is False


def test_what_a_person_said_goes_before_the_reward_except_in_the_middle():
    good, bad = engine(Fixed("a", 1.0)), engine(Fixed("a", 0.0))
    assert good.get_binary_label(rated(0.0)) is False
    assert bad.get_binary_label(rated(1.0, 0.25)) is True
    assert (good.get_binary_label(rated(0.5)), bad.get_binary_label(rated(1.0, 0.0))) == (True, False)


def test_the_summary_counts_everything():
    told = engine(Fixed("a", 0.5), Fixed("b", None), Breaks()).summary([record(), rated(1.0)])
    assert told["traces"] == 2
    assert told["components"]["a"] == {"count": 2, "mean": 0.5, "std": 0.0, "abstained": 0, "broken": 0}
    assert told["components"]["b"] == {"count": 0, "mean": None, "std": None, "abstained": 2, "broken": 0}
    assert told["components"]["breaks"]["broken"] == 2
    assert told["combined"]["count"] == 0
    assert told["labels"] == {"good": 1, "bad": 0, "unlabelled": 1}


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_the_summary_has_the_mean_and_spread_of_all_traces(values):
    told = RewardEngine({**OFF, "feedback": 1}).summary(rated(value) for value in values)["combined"]
    mean = fmean(values)
    assert told["mean"] == pytest.approx(mean)
    assert told["std"] == pytest.approx(math.sqrt(fmean((value - mean) ** 2 for value in values)), abs=1e-7)


HERE = "tests.rewards.records"


def test_a_reward_of_ones_own_is_loaded_under_the_name_it_is_given():
    engine = RewardEngine(rewards=load_rewards({"brief": f"{HERE}.Length"}))
    (result,) = (each for each in engine.compute_all(record("abc")) if each.name == "brief")
    assert (result.value, result.weight) == (0.25, 2.0)


@pytest.mark.parametrize(
    ("name", "path", "problem"),
    [
        ("brief", "no.such.module.Class", "brief=no.such.module.Class cannot be loaded: ModuleNotFoundError"),
        ("brief", f"{HERE}.Missing", "cannot be loaded: AttributeError"),
        ("brief", "Length", "cannot be loaded: ValueError"),
        ("brief", f"{HERE}.record", "is not a subclass of rl.rewards.BaseReward"),
        ("brief", f"{HERE}.NeedsArguments", "cannot be made without arguments"),
        ("brief", "rl.rewards.BaseReward", "cannot be made without arguments: Can't instantiate abstract class"),
        ("../x", f"{HERE}.Length", "reward name"),
    ],
)
def test_one_that_is_wrong_is_named(name, path, problem):
    with pytest.raises(UsageError, match=problem):
        load_rewards({name: path})
