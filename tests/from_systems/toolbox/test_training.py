"""Training as ToolBoxV2's documents call it, on the tiny model."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as site

from rl.base.errors import BadFile, NotEnoughData, UsageError
from rl.from_systems.toolbox import (
    BaseReward,
    ExecutionTrace,
    GRPOExample,
    HardwareConfig,
    HardwareProfile,
    KTOExample,
    RewardEngine,
    RewardResult,
    RLTrainer,
    ToolSuccessReward,
    TrainingConfig,
    TrainingPipeline,
    detect_hardware,
    get_ryzen_optimized_config,
)
from rl.from_systems.toolbox.trainer import scorer_of, write_rows
from tests.export.ollama_double import OllamaDouble
from tests.rewards.records import record
from tests.training.conftest import polite_rows

SMALL: dict[str, Any] = {
    "num_epochs": 1,
    "per_device_batch_size": 4,
    "gradient_accumulation_steps": 1,
    "learning_rate": 1e-3,
    "lora_r": 4,
    "lora_alpha": 8,
    "max_seq_length": 128,
    "max_completion_length": 16,
    "num_generations": 2,
    "gradient_checkpointing": False,
}


def kto_examples(count: int = 8) -> list[KTOExample]:
    pairs = polite_rows(count)
    texts = [(pair["prompt"][0]["content"], pair, number % 2 == 0) for number, pair in enumerate(pairs)]
    return [
        KTOExample(f"User: {query}", pair["chosen" if good else "rejected"][0]["content"], good)
        for query, pair, good in texts
    ]


def grpo_examples(count: int = 6) -> list[GRPOExample]:
    return [
        GRPOExample(
            f"Be brief.\n\nUser: {pair['prompt'][0]['content']}",
            [pair[name][0]["content"] for name in ("chosen", "rejected")],
            [1.0, -1.0],
        )
        for pair in polite_rows(count)
    ]


def test_defaults_are_those_of_toolbox():
    config = TrainingConfig()
    assert (config.base_model, config.output_dir, config.method) == (
        "Qwen/Qwen2.5-1.5B-Instruct",
        "./rl_output",
        "grpo",
    )
    assert (config.per_device_batch_size, config.gradient_accumulation_steps, config.num_generations) == (1, 8, 4)
    assert (config.max_seq_length, config.max_completion_length, config.beta) == (2048, 512, 0.1)


def test_the_documented_configuration_becomes_ratchets():
    config = TrainingConfig(
        base_model="Qwen/Qwen2.5-1.5B-Instruct",
        method="grpo",
        lora_r=16,
        lora_alpha=32,
        per_device_batch_size=2,
        gradient_accumulation_steps=4,
        num_generations=6,
        learning_rate=5e-5,
        num_epochs=3,
        use_bf16=True,
        gradient_checkpointing=True,
    )
    ours = config.to_core().as_dict()
    names = ("batch_size", "gradient_accumulation", "num_generations", "max_length", "max_new_tokens", "epochs")
    assert [ours[name] for name in names] == [2, 4, 6, 2048, 512, 3]
    assert "num_generations" not in TrainingConfig(method="kto").to_core().as_dict()
    with pytest.raises(UsageError, match="known: mpo"):
        TrainingConfig(method="magic").to_core()


def test_a_configuration_is_saved_loaded_and_made_for_a_machine(tmp_path: Path):
    config = TrainingConfig.from_hardware_config(get_ryzen_optimized_config(), method="kto", num_epochs=1)
    assert (config.per_device_batch_size, config.num_generations, config.method) == (2, 6, "kto")
    config.save(tmp_path / "c.json")
    assert TrainingConfig.load(tmp_path / "c.json") == config
    with pytest.raises(UsageError, match="did you mean num_epochs"):
        TrainingConfig.from_hardware_config(get_ryzen_optimized_config(), num_epoch=1)
    with pytest.raises(BadFile, match="not a training configuration"):
        (tmp_path / "x.json").write_text('{"a": 1}') and TrainingConfig.load(tmp_path / "x.json")


def test_what_has_no_effect_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    RLTrainer(TrainingConfig(output_dir=str(tmp_path / "out"), weight_decay=0.5, desirable_weight=2.0))
    assert "without effect here: desirable_weight, weight_decay" in caplog.text
    assert json.loads((tmp_path / "out" / "training_config.json").read_text())["weight_decay"] == 0.5


def test_examples_become_rows_of_messages(tmp_path: Path):
    assert write_rows(grpo_examples(1), "grpo", tmp_path / "rows") == 1
    row = json.loads((tmp_path / "rows").read_text())
    assert [message["role"] for message in row["prompt"]] == ["system", "user"]
    assert row["completions"][0][0]["role"] == "assistant"
    with pytest.raises(UsageError, match="row 1 is not one of kto: it lacks 'completion'"):
        write_rows([{"prompt": "p"}], "kto", tmp_path / "rows")


def test_reward_functions_are_asked_for_each_answer():
    def polite(prompts: list[str], completions: list[str], **more: Any) -> list[float]:
        return [float("thank" in text) for text in completions]

    score = scorer_of([polite, lambda prompts, completions: [0.0]])(record("thank you"))
    assert (score.value, score.components["polite"]) == (0.5, 1.0)
    with pytest.raises(UsageError, match="a number from 0 to 1"):
        scorer_of([lambda prompts, completions: [7.0]])(record("x"))


@pytest.mark.learn
@pytest.mark.parametrize(("method", "examples"), [("kto", kto_examples()), ("grpo", grpo_examples())])
def test_a_trainer_trains_and_saves_a_whole_model(method: str, examples: Any, tiny_base: Path, tmp_path: Path):
    config = TrainingConfig(base_model=str(tiny_base), output_dir=str(tmp_path / "out"), method=method, **SMALL)
    trainer = RLTrainer(config)
    assert trainer.setup() is trainer
    assert trainer.model is not None
    assert trainer.tokenizer is not None
    trainer.train(examples)
    merged = Path(trainer.save_model(merge_lora=True))
    assert merged == tmp_path / "out" / "final"
    assert (merged / "model.safetensors").exists()
    assert (merged / "tokenizer.json").exists()
    stats = json.loads((merged / "training_stats.json").read_text())
    assert (stats["method"], stats["epochs"]) == (method, 1)
    assert stats["total_steps"] >= 2
    figures = trainer.evaluate(examples)
    assert figures["eval_pairs"] >= 4
    assert figures["eval_accuracy"] > 0.5
    assert figures["eval_margin"] > 0
    assert list(trainer.evaluate(examples, metrics=["eval_accuracy"])) == ["eval_accuracy"]
    with pytest.raises(NotEnoughData, match="no rows make a better and a worse answer"):
        trainer.evaluate([])
    adapter = Path(trainer.save_model(tmp_path / "adapter", merge_lora=False))
    assert (adapter / "adapter_model.safetensors").exists()
    assert f"total_steps: {stats['total_steps']}" in trainer.get_training_summary()


def test_nothing_is_saved_before_a_training(tmp_path: Path):
    with pytest.raises(UsageError, match="nothing is trained yet"):
        RLTrainer(TrainingConfig(output_dir=str(tmp_path))).save_model()


def test_nothing_is_measured_before_a_training(tmp_path: Path):
    with pytest.raises(UsageError, match="nothing is trained yet"):
        RLTrainer(TrainingConfig(output_dir=str(tmp_path))).evaluate([])


def pipeline(tmp_path: Path, base: Path, method: str = "kto") -> TrainingPipeline:
    made = TrainingPipeline("isaa", str(base), tmp_path / "out", method, storage_path=tmp_path / "data" / "rl_traces")
    for name, value in SMALL.items():
        setattr(made.training_config, name, value)
    return made


def record_runs(made: TrainingPipeline) -> None:
    collector = made.dataset_pipeline.trace_collector
    for example in kto_examples():
        collector.start_trace("s", example.prompt.removeprefix("User: "))
        trace = collector.finish_trace(example.completion)
        collector.label_trace(trace.trace_id, example.label)


@pytest.mark.learn
def test_the_whole_way_ends_at_ollama(tmp_path: Path, tiny_base: Path, double: OllamaDouble):
    made = pipeline(tmp_path, tiny_base)
    record_runs(made)
    results = made.run_full_pipeline(deploy_ollama=True)
    assert results["success"] is True, results["traceback"]
    assert results["ollama_model"] == "toolbox-isaa"
    assert (results["dataset_size"], results["training"]["method"]) == (8, "kto")
    assert Path(results["model_path"]).is_dir()
    assert "toolbox-isaa:latest" in double.models
    assert made.gguf_path == str(tmp_path / "out" / "gguf" / "isaa-Q4_K_M.gguf")
    stored = json.loads((tmp_path / "out" / "pipeline_results.json").read_text())
    assert stored == json.loads(json.dumps(results))


@pytest.mark.learn
@pytest.mark.parametrize("by_functions", [False, True])
def test_prompts_alone_are_enough_for_grpo_where_a_reward_can_score(
    tmp_path: Path, tiny_base: Path, double: OllamaDouble, by_functions: bool
):
    judged: list[str] = []

    def short(prompts: list[str], completions: list[str], **more: Any) -> list[float]:
        judged.extend(completions)
        return [1 / (1 + len(text)) for text in completions]

    class Short(BaseReward):
        name = "short"

        def compute(self, trace: ExecutionTrace) -> RewardResult:
            judged.append(trace.final_response)
            return RewardResult(1 / (1 + len(trace.final_response)), is_binary=False)

    made = pipeline(tmp_path, tiny_base, "grpo")
    record_runs(made)  # one answer to each question
    made.dataset_pipeline.reward_engine = RewardEngine([Short(), ToolSuccessReward()])
    assert made.dataset_pipeline.build_grpo_dataset(tmp_path / "groups") == []
    results = made.run_full_pipeline(reward_funcs=[short] if by_functions else None)
    assert results["success"] is True, results["traceback"]
    assert (results["dataset_size"], results["ollama_model"]) == (8, "toolbox-isaa")
    rows = [json.loads(line) for line in (tmp_path / "out" / "train.jsonl").read_text().splitlines()]
    assert [row["prompt"][0]["role"] for row in rows] == ["user"] * 8
    assert len(judged) >= 16


def test_prompts_are_not_enough_where_no_reward_can_judge_a_new_answer(tmp_path: Path):
    made = pipeline(tmp_path, tmp_path, "grpo")
    record_runs(made)
    made.dataset_pipeline.reward_engine = RewardEngine([ToolSuccessReward()])
    with pytest.raises(NotEnoughData, match="isaa has 0 examples for grpo"):
        made.prepare_data()


@pytest.mark.learn
def test_a_failure_is_told_in_the_result(tmp_path: Path, tiny_base: Path):
    results = pipeline(tmp_path, tiny_base, "grpo").run_full_pipeline(deploy_ollama=False)
    assert results["success"] is False
    assert "isaa has 0 examples for grpo" in results["error"]
    assert "NotEnoughData" in results["traceback"]
    with pytest.raises(KeyError, match="there is no ollama_model, for the pipeline failed: isaa has 0 examples"):
        results["ollama_model"]
    with pytest.raises(NotEnoughData):
        pipeline(tmp_path, tiny_base).prepare_data()


def test_an_unknown_method_is_refused_at_once(tmp_path: Path):
    with pytest.raises(UsageError, match="known: grpo, kto"):
        TrainingPipeline("isaa", output_dir=tmp_path, method="ppo")


SCRIPT = """
import sys
from rl.from_systems.toolbox import TraceCollector
assert not {"django", "torch"} & set(sys.modules)
from rl.from_systems.toolbox import GGUFExporter
try:
    GGUFExporter("/nowhere/model", output_dir=sys.argv[1]).convert()
except Exception as error:
    print(type(error).__name__, "torch" in sys.modules)
"""


@pytest.mark.process
def test_a_script_of_ones_own_needs_no_command_of_ours(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], cwd=site.BASE_DIR, capture_output=True, text=True, timeout=1800
    )
    assert done.stdout.strip() == "UsageError False", done.stderr


@pytest.mark.learn
def test_with_reward_functions_answers_are_generated(tiny_base: Path, tmp_path: Path):
    asked: list[str] = []

    def short(prompts: list[str], completions: list[str], **more: Any) -> list[float]:
        asked.extend(prompts)
        return [1 / (1 + len(text)) for text in completions]

    config = TrainingConfig(base_model=str(tiny_base), output_dir=str(tmp_path), method="grpo", **SMALL)
    trainer = RLTrainer(config)
    assert trainer.train(grpo_examples(2), reward_funcs=[short]).steps >= 1
    assert set(asked) == {pair["prompt"][0]["content"] for pair in polite_rows(2)}
    with pytest.raises(UsageError, match="reward_funcs are for grpo"):
        RLTrainer(TrainingConfig(output_dir=str(tmp_path), method="kto")).train(kto_examples(), [short])


def test_the_ryzen_has_the_numbers_that_toolbox_documents():
    config = get_ryzen_optimized_config()
    assert (config.cpu_cores, config.cpu_threads, config.ram_gb, config.available_ram_gb) == (16, 32, 40.0, 32.0)
    assert "5950X" in config.cpu_name
    assert config.profile is HardwareProfile.RYZEN_OPTIMIZED
    assert (config.recommended_batch_size, config.recommended_model_size) == (2, "1.5B")
    assert (config.lora_r, config.lora_alpha, config.num_generations) == (16, 32, 6)
    assert config.gradient_checkpointing is True
    assert config.max_completion_length == 256


def test_a_ryzen_without_bf16_instructions_does_not_pretend_to_have_them():
    config = get_ryzen_optimized_config()
    assert (config.use_bf16, config.use_fp16, config.get_torch_dtype()) == (False, False, "float32")


def test_this_machine_is_described(tmp_path: Path):
    config = detect_hardware(tmp_path / "models")
    assert config.ram_gb >= config.available_ram_gb > 0
    assert config.storage_path == str(tmp_path / "models")
    assert config.storage_free_gb > 0
    assert config.get_training_device() == ("cuda" if config.cuda_available else "cpu")
    assert not (tmp_path / "models").exists()


def test_it_becomes_what_trainers_take():
    config = HardwareConfig(recommended_batch_size=2, gradient_accumulation_steps=4, lora_r=4, lora_alpha=8)
    arguments = config.to_training_args()
    assert (arguments["per_device_train_batch_size"], arguments["gradient_accumulation_steps"]) == (2, 4)
    assert arguments["use_cpu"] is True
    lora = config.to_lora_config()
    assert (lora["r"], lora["lora_alpha"], sorted(lora["target_modules"])) == (
        4,
        8,
        ["k_proj", "o_proj", "q_proj", "v_proj"],
    )
    assert config.to_grpo_config() == {"num_generations": 4, "max_completion_length": 256, "use_vllm": False}
    assert "Batch size: 2 x 4" in config.summary()


def test_profiles_have_toolbox_s_values():
    assert {profile.value for profile in HardwareProfile} == {
        "ryzen_optimized",
        "auto_detect",
        "gpu_enabled",
        "cpu_only",
    }
