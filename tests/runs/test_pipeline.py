from pathlib import Path

import pytest

from rl.base.errors import NotEnoughData, UsageError
from rl.config import config_class
from rl.models import Agent, Deployment, TrainingRun
from rl.training import RLTrainer, TrainingConfig, TrainingPipeline
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate_prompts, rated
from tests.guard_limits import NOISE_ALLOWED
from tests.training.conftest import SMALL, polite_rows, write_rows


@pytest.mark.learn
def test_a_trainer_needs_rows_and_a_model_and_nothing_else(tiny_base: Path, tmp_path: Path):
    rows = write_rows(tmp_path / "rows.jsonl", polite_rows())
    config = TrainingConfig().with_overrides({**SMALL, "max_steps": 2})
    result = RLTrainer("dpo", str(tiny_base), tmp_path / "out", config).train(rows)
    assert result.steps == 2
    assert (tmp_path / "out" / "adapter" / "adapter_model.safetensors").exists()


def test_a_trainer_takes_the_configuration_of_its_method():
    assert RLTrainer("grpo", "base", "out").config == config_class("grpo")()
    with pytest.raises(UsageError, match="unknown hyper-parameter"):
        RLTrainer("dpo", "base", "out", config_class("grpo")())
    with pytest.raises(UsageError, match="known: mpo, sft, dpo, kto"):
        RLTrainer("magic", "base", "out")


@pytest.mark.django_db
class TestPipeline:
    def test_it_takes_the_advised_method(self, agent: Agent):
        rate_prompts(agent, 20)
        told: list[str] = []
        assert TrainingPipeline("Support-Chat").choose(lambda event, values: told.append(str(values))) == "mpo"
        assert "training with mpo" in told[-1]

    def test_where_rewards_differ_and_few_answers_are_rated_it_takes_grpo(self, agent: Agent):
        for number in range(12):
            for success in (True, False):
                calls = [{"tool_name": "track", "success": success}]
                make_trace(agent, f"Once {number}?", f"Answer {success}.", tool_calls=calls)
        rated(agent, "Once 1?", "Well.", 1)
        assert TrainingPipeline("support-chat").choose() == "grpo"

    def test_it_computes_rewards_before_it_decides(self, agent: Agent):
        trace = make_trace(agent, tool_calls=[{"tool_name": "track", "success": True}])
        with pytest.raises(NotEnoughData, match="support-chat: nothing can be trained yet"):
            TrainingPipeline("support-chat").choose()
        trace.refresh_from_db()
        assert trace.reward is not None

    def test_who_and_how_are_checked_first(self, agent: Agent):
        with pytest.raises(UsageError, match="unknown agent 'nobody'"):
            TrainingPipeline("nobody")
        with pytest.raises(UsageError, match="unknown training method"):
            TrainingPipeline("support-chat", method="magic")

    def test_a_plan_writes_nothing(self, agent: Agent, data_dir: Path):
        rate_prompts(agent, 20)
        document = TrainingPipeline("support-chat").plan({"max_steps": 3}, {"min_samples": 1}).document
        assert (document["method"], document["config"]["max_steps"]) == ("mpo", 3)
        assert not TrainingRun.objects.exists()
        assert list(data_dir.iterdir()) == []

    @pytest.mark.learn
    @pytest.mark.slow
    def test_the_whole_way(self, agent: Agent, data_dir: Path, tiny_base: Path):
        rate_prompts(agent, 60)
        Agent.objects.update(base_model=str(tiny_base), guard_limits=NOISE_ALLOWED)
        overrides = {**SMALL, "max_steps": 30, "batch_size": 8}
        found = TrainingPipeline("support-chat", method="dpo").run_full_pipeline(
            overrides=overrides, quantization="f16"
        )
        assert found.run.state == TrainingRun.State.SUCCEEDED
        assert found.evaluation.version == found.version
        promoted = found.evaluation.verdict == "promote"
        assert (found.deployment is not None, "gguf" in found.artifacts) == (promoted, promoted)
        assert (Deployment.champion(agent) == found.version) is promoted
