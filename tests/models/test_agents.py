import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from rl.models import Agent

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("name", ["FILER", "widget-selector", "a", "v1.2_x"])
def test_names_are_slugs(name):
    Agent(name=name).full_clean()


@pytest.mark.parametrize("name", ["", "../etc", "a/b", "-x", "a..b", "two words", "CON", "ümlaut", "x" * 65])
def test_other_names_are_refused(name):
    with pytest.raises(ValidationError):
        Agent(name=name).full_clean()


def test_names_that_differ_in_case_only_are_one_name():
    Agent.objects.create(name="filer")
    with pytest.raises(IntegrityError), transaction.atomic():
        Agent.objects.create(name="FILER")


@pytest.mark.parametrize(
    "overrides", [{"learning_rat": 1}, {"epochs": -1}, {"epochs": "3"}, ["epochs"], {"precision": "fp8"}]
)
def test_wrong_hyper_parameters_are_refused(overrides):
    with pytest.raises(ValidationError):
        Agent(name="x", training_overrides=overrides).full_clean()


def test_the_training_config_is_the_preset_with_what_the_agent_overrides():
    agent = Agent(name="x", preset="high_quality", context_length=512, training_overrides={"beta": 0.3})
    config = agent.training_config()
    assert (config.lora_r, config.max_length, config.beta) == (32, 512, 0.3)


def test_the_lengths_of_an_agent_hold_for_every_method_and_preset():
    agent = Agent(name="x", context_length=700, response_length=90, training_overrides={"beta": 0.3})
    for method in ("grpo", "ppo"):
        config = agent.training_config(method)
        assert (config.max_length, config.max_new_tokens, config.beta) == (700, 90, 0.3)
    named = agent.training_config("grpo", "high_quality")
    assert (named.max_length, named.max_new_tokens, named.lora_r) == (700, 90, 32)
    assert named.beta != 0.3, "overrides belong to the agent's own preset"
    assert not hasattr(agent.training_config("dpo"), "max_new_tokens")


def test_generated_answers_leave_half_of_the_length_to_the_prompt_unless_the_agent_says_otherwise():
    assert Agent(name="x", context_length=200).training_config("ppo").max_new_tokens == 100
    short = Agent(name="x", training_overrides={"max_length": 128})
    assert short.training_config("grpo").max_new_tokens == 64
    short.training_overrides["max_new_tokens"] = 100
    assert short.training_config("grpo").max_new_tokens == 100


def test_a_preset_with_short_rows_keeps_them_short():
    assert Agent(name="x", preset="memory_constrained").training_config().max_length == 512
    assert Agent(name="x", preset="memory_constrained", context_length=256).training_config().max_length == 256
    own = Agent(name="x", preset="quick_prototype", training_overrides={"max_length": 900})
    assert own.training_config().max_length == 900


def test_an_agent_that_is_unsure_asks_another_one():
    agent = Agent.objects.create(name="small", base_model="tiny")
    agent.larger_agent = agent
    with pytest.raises(ValidationError, match="must be another agent"):
        agent.full_clean()
    agent.larger_agent = Agent.objects.create(name="large", base_model="tiny")
    agent.full_clean()
    agent.larger_agent.delete()
    assert Agent.objects.get(name="small").larger_agent is None


def test_an_unknown_quantization_is_refused():
    with pytest.raises(ValidationError, match="q9_9"):
        Agent(name="x", export_quantization="q9_9").full_clean()


def test_the_name_stays_once_there_is_a_training_set():
    agent = Agent.objects.create(name="filer")
    agent.name = "sorter"
    agent.full_clean()
    agent.training_sets.create(
        method="dpo", content_hash="0" * 64, train_rows=1, heldout_rows=1, feedback_count=2, val_split=0.2
    )
    with pytest.raises(ValidationError, match="held out"):
        agent.full_clean()
    agent.name = "FILER"  # the folders of its versions bear the name
    with pytest.raises(ValidationError, match="held out"):
        agent.full_clean()


def test_settings_that_give_no_hyper_parameters_are_refused():
    """The learner would find them out, every minute, instead of the person who entered them."""
    with pytest.raises(ValidationError, match="max_length must be a number from 16 to 1e\\+06"):
        Agent(name="x", context_length=2_000_000).full_clean()
