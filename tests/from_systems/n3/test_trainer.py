"""Training as N3's guide calls it, on the tiny model."""

from pathlib import Path

import pytest

from rl.base.errors import NotEnoughData, UsageError
from rl.from_systems.n3 import (
    DatasetConfig,
    RewardModel,
    RewardModelConfig,
    RLHFTrainer,
    TrainingConfig,
    TrainingResult,
    prepare_feedback_dataset,
    prepare_ppo_dataset,
    train_reward_model,
)
from tests.from_systems.n3.samples import FEEDBACKS

pytestmark = pytest.mark.learn


@pytest.fixture(scope="module")
def config(tiny_base: Path) -> TrainingConfig:
    return TrainingConfig(
        base_model=str(tiny_base),
        learning_rate=1e-3,
        batch_size=4,
        max_steps=2,
        max_new_tokens=8,
        dataset=DatasetConfig(max_length=128, max_prompt_length=64),
        reward_model_config=RewardModelConfig(str(tiny_base), learning_rate=1e-3, num_epochs=2, max_length=128),
        device="cpu",
    )


@pytest.fixture(scope="module")
def trained(config: TrainingConfig, tmp_path_factory: pytest.TempPathFactory) -> TrainingResult:
    return RLHFTrainer(config).train(FEEDBACKS, tmp_path_factory.mktemp("my_agent") / "v10")


def test_ten_samples_make_a_reward_model_and_a_policy(trained: TrainingResult):
    assert (trained.feedback_count, trained.training_steps) == (10, 2)
    assert len(trained.reward_history) == len(trained.kl_history) == len(trained.loss_history) == 2
    assert trained.final_reward_mean is not None
    assert -1 <= trained.final_reward_mean <= 1
    folder = Path(trained.model_path).parent
    assert sorted(path.name for path in folder.iterdir()) == ["policy", "reward_model", "training_results.json"]
    assert TrainingResult.load(folder / "training_results.json") == trained


def test_the_policy_is_loaded_from_its_one_folder(trained: TrainingResult):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(trained.model_path)
    tokenizer = AutoTokenizer.from_pretrained(trained.model_path)
    inputs = tokenizer("What is quantum computing?", return_tensors="pt")
    assert model.generate(**inputs, max_new_tokens=3, do_sample=False).shape[1] > inputs["input_ids"].shape[1]


def test_a_reward_model_is_loaded_and_used_again(trained: TrainingResult, config: TrainingConfig, tmp_path: Path):
    again = RLHFTrainer(config).train(FEEDBACKS, tmp_path / "v11", reward_model_path=trained.reward_model_path)
    assert again.reward_model_path is None
    assert not (tmp_path / "v11" / "reward_model").exists()
    assert again.reward_history == pytest.approx(trained.reward_history)


def test_a_reward_model_gives_each_row_a_number_and_has_its_history(config: TrainingConfig, tmp_path: Path):
    train, held_out = prepare_feedback_dataset(FEEDBACKS, train_split=0.8)
    assert (len(train), len(held_out)) == (8, 2)
    model = train_reward_model(train, held_out, config.reward_model_config, None)
    model.save_pretrained(tmp_path / "reward_model")
    loaded = RewardModel.load_pretrained(tmp_path / "reward_model", device="cpu")
    trainer = RLHFTrainer(config)
    trainer.prepare_models()
    batch = trainer.tokenizer(["a", "a longer one"], return_tensors="pt", padding=True, padding_side="right")
    numbers = loaded(batch["input_ids"], batch["attention_mask"])
    assert numbers.shape == (2,)
    assert numbers.tolist() == pytest.approx(model.forward(batch["input_ids"], batch["attention_mask"]).tolist())
    assert {name: len(values) for name, values in model.history.items()} == {
        "train_loss": 2,
        "train_mae": 1,
        "val_mae": 1,
        "val_loss": 1,
    }
    assert -1 <= (loaded.score("What is 7 times 8?", "56.") or 0) <= 1


def test_what_a_training_would_do_is_told_before(config: TrainingConfig):
    estimate = RLHFTrainer(config).estimate_training(FEEDBACKS)
    assert (estimate["feedback_count"], estimate["estimated_steps"]) == (10, 2)
    assert estimate["score_mean"] == pytest.approx(0.775)
    assert estimate["estimated_time_minutes"] >= 0
    assert estimate["model_config"]["use_lora"] is True


def test_a_configuration_may_be_changed_as_the_guide_does(tiny_base: Path):
    config = TrainingConfig(
        base_model=str(tiny_base), batch_size=2, use_lora=False, mixed_precision="fp16", device="cuda"
    )
    config.reward_model_config.num_epochs, config.max_steps = 2, 50
    assert (config.to_core().mini_batch_size, config.to_core().full, config.to_core().max_steps) == (2, True, 50)
    assert config.reward_model_config.to_core().epochs == 2
    assert config.reward_model_config.base_model == str(tiny_base)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"score": 1.5}, "feedback 1: score must be a number from 0 to 1"),
        ({"score": None}, "feedback 1: score must be"),
        ({"response": ""}, "feedback 1: response is missing or empty"),
    ],
)
def test_wrong_feedback_is_refused_with_its_number(config: TrainingConfig, change: dict[str, object], problem: str):
    with pytest.raises(UsageError, match=problem):
        prepare_ppo_dataset([{**FEEDBACKS[0], **change}])


def test_without_feedback_or_a_reward_model_nothing_is_trained(config: TrainingConfig, tiny_base: Path, tmp_path: Path):
    with pytest.raises(NotEnoughData, match="there is no feedback to train on"):
        RLHFTrainer(config).train([], tmp_path)
    alone = TrainingConfig(base_model=str(tiny_base), train_reward_model_first=False)
    with pytest.raises(UsageError, match="name a reward model as reward_model_path"):
        RLHFTrainer(alone).train(FEEDBACKS, tmp_path)
    with pytest.raises(UsageError, match="there is no reward model at"):
        RLHFTrainer(config).train(FEEDBACKS, tmp_path, reward_model_path=tmp_path / "nobody")
