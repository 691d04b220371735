import pytest

from rl import auto_labels
from rl.auto_labels import predicting
from rl.base.errors import NotEnoughData, RewardFailed, UsageError
from rl.config import AgentConfig, GRPOConfig, PPOConfig, TrainingConfig, find_method
from rl.data_formatter.fresh import fresh_trace
from rl.models import Agent
from rl.rewards import REWARDS, reward_class
from rl.scoring.rollouts import AgentScorer, check_rollouts, require_rewards
from tests.auto_labels.labelled import BAD, GOOD, make_labelled
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db
ROW = {"prompt": [{"role": "user", "content": "Say it."}], "prompt_key": "q", "details": {"format": "json"}}
OFFLINE = GRPOConfig().with_overrides({"rollouts": "offline"})


@pytest.mark.parametrize(
    ("method", "config", "kind"),
    [
        ("grpo", GRPOConfig(), "prompts"),
        ("grpo", OFFLINE, "grpo"),
        ("ppo", PPOConfig(), "prompts"),
        ("agent", AgentConfig(), "agent"),
        ("dpo", TrainingConfig(), "dpo"),
        ("reward_model", TrainingConfig(), "reward"),
    ],
)
def test_methods_that_generate_start_from_prompts(method: str, config: TrainingConfig, kind: str):
    if method != "reward_model":  # whose rows are its own affair
        assert find_method(method).rows_with(config).name == kind
    assert find_method(method).generates_with(config) == (kind == "prompts")


def test_fresh_answers_are_judged_by_what_needs_no_record_of_them():
    fresh = {name for name in REWARDS if reward_class(name).fresh}
    assert set(REWARDS) - fresh == {"tool_success", "task_completion", "decision", "environment", "feedback"}


def test_a_fresh_answer_gets_the_agents_rewards_by_name(agent):
    score = AgentScorer(agent.name)(fresh_trace(ROW, '{"a": 1}', 10, 4000))
    assert score.components["format_compliance"] == 1
    assert score.components["efficiency"] == pytest.approx(2 ** (-4010 / 4000))
    assert score.value == pytest.approx((1 + 0.5 * score.components["efficiency"]) / 1.5)


def test_only_the_rewards_that_are_named_count_with_the_agents_weights(agent):
    score = AgentScorer(agent.name, "format_compliance, syntax_validation")(fresh_trace(ROW, '{"a": 1}', 10, 4000))
    assert (score.value, score.components) == (1, {"format_compliance": 1})


def test_where_nothing_applies_there_is_no_value(agent):
    assert AgentScorer(agent.name, "format_compliance")(fresh_trace({**ROW, "details": {}}, "Yes.")).value is None


def test_what_was_decided_about_the_stored_answer_says_nothing_about_a_fresh_one(agent):
    row = {**ROW, "details": {"decision": {"reward": 2.0}}}
    assert "decision" not in AgentScorer(agent.name)(fresh_trace(row, "Yes.")).components


def test_a_reward_that_breaks_is_named(agent, settings):
    settings.CUSTOM_REWARDS = {"broken": "tests.scoring.test_rollouts.Broken"}
    with pytest.raises(RewardFailed, match="reward broken: ZeroDivisionError"):
        AgentScorer(agent.name)(fresh_trace(ROW, "{}"))


class Broken(reward_class("format_compliance")):
    def compute(self, trace):
        return self.gives(1 / 0, "never")


@pytest.mark.parametrize(
    ("names", "weights", "told"),
    [
        ("polite", {}, "unknown reward 'polite'; known: code_execution, syntax_validation"),
        ("feedback", {}, "the reward feedback needs a stored answer; fresh ones can have: code_execution"),
        ("code_execution", {"code_execution": 0}, "code_execution is switched off: its weight for"),
    ],
)
def test_rewards_that_cannot_be_used_are_refused(agent, names, weights, told):
    agent.reward_weights = weights
    with pytest.raises(UsageError, match=told):
        check_rollouts(agent, "grpo", GRPOConfig(), names, "")


@pytest.mark.parametrize(
    ("config", "rewards", "model", "told"),
    [
        (GRPOConfig(), "format_compliance", "v3", "two ways to reward an answer: choose one"),
        (OFFLINE, "format_compliance", "", "--rewards is for answers that are generated while training"),
        (OFFLINE, "", "v3", "--reward-model is for answers that are generated while training"),
        (GRPOConfig().with_overrides({"sft_epochs": 1.0}), "", "", "leave it out, or use --rollouts offline"),
        (GRPOConfig().with_overrides({"vllm": True}), "", "", "the package vllm is not installed here"),
        (GRPOConfig().with_overrides({"vllm_server": "http://gpu:8000"}), "", "", "the package vllm is not installed"),
    ],
)
def test_settings_that_contradict_each_other_or_the_machine_are_refused(
    agent, monkeypatch, config, rewards, model, told
):
    monkeypatch.setattr("rl.scoring.rollouts.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=told):
        check_rollouts(agent, "grpo", config, rewards, model)


def test_an_agent_whose_rewards_all_need_records_is_told_which_would_do(agent):
    agent.reward_weights = {name: 0 for name in REWARDS if name not in ("feedback", "tool_success", "efficiency")}
    with pytest.raises(NotEnoughData, match="give one of these a weight, code_execution, syntax_validation, eff"):
        require_rewards(agent)


def test_rewards_that_apply_to_none_of_the_answers_are_told_with_their_reasons(agent):
    make_trace(agent, response="On Friday.")
    with pytest.raises(NotEnoughData) as refused:
        require_rewards(agent)
    told = str(refused.value)
    assert told.startswith(f"no reward applies to any of the 1 newest answers of {agent.name}")
    assert "code_execution: it has no python or shell block" in told
    assert "format_compliance: no format was asked for" in told


def test_one_answer_to_which_a_reward_applies_is_enough(agent):
    make_trace(agent, response="On Friday.")
    make_trace(agent, response="```json\n{}\n```")
    require_rewards(agent)


def test_without_answers_nothing_is_known_yet(agent):
    require_rewards(agent)


@pytest.mark.learn
def test_what_a_run_needs_is_known_before_the_base_model_is_loaded(agent, data_dir, tiny_base, monkeypatch):
    Agent.objects.update(base_model=str(tiny_base))
    agent.refresh_from_db()
    make_labelled(agent, 100)
    auto_labels.learn(agent)
    monkeypatch.setattr(predicting, "load_reader", None)
    with pytest.raises(NotEnoughData, match="no reward applies to any of the 20 newest answers"):
        require_rewards(agent)


@pytest.mark.learn
def test_a_fresh_answer_is_judged_as_people_label_answers(agent, data_dir, tiny_base):
    Agent.objects.update(base_model=str(tiny_base))
    agent.refresh_from_db()
    make_labelled(agent, 100)
    auto_labels.learn(agent)
    scorer = AgentScorer(agent.name)
    good, bad = (scorer(fresh_trace(ROW, text.format(7))).components["learned_reward"] for text in (GOOD, BAD))
    assert good > 0.7 > 0.3 > bad
