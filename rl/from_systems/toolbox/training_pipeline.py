"""ToolBoxV2's whole way, from an agent's traces to a model at Ollama, and from a trained model to one. It is the short way,
without what Ratchet's own pipeline adds: versions, an evaluation on held-out data, a gate, a way back."""

import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from rl.base.errors import NotEnoughData, UsageError
from rl.base.files import write_json
from rl.base.names import require_known
from rl.base.records import Report, Scorer, silent
from rl.from_systems import toolbox
from rl.from_systems.toolbox.dataset_pipeline import DatasetPipeline
from rl.from_systems.toolbox.datasets import GRPOExample, KTOExample
from rl.from_systems.toolbox.ollama import GGUFExporter, OllamaDeployer
from rl.from_systems.toolbox.trainer import RewardFunction, RLTrainer
from rl.from_systems.toolbox.training_config import TrainingConfig, detect_hardware


class Results(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        """Raises KeyError that says why there is none."""
        reason = f", for the pipeline failed: {self['error']}" if "error" in self else ""
        raise KeyError(f"there is no {name}{reason}")


class Steps(AbstractContextManager["Steps", bool]):
    """Used in ``with``: an error within ends the steps and becomes ``success: False`` with ``error`` and ``traceback``. A
    KeyboardInterrupt and its like go on."""

    def __init__(self, file: Path, **about: Any) -> None:
        self.file, self.values = file, Results(start_time=_now(), **about)

    def __setitem__(self, name: str, value: Any) -> None:
        self.values[name] = value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        is_failure = isinstance(error, Exception)
        if is_failure:
            lines = traceback.format_exception(kind, error, trace)
            self.values |= {"success": False, "error": str(error), "traceback": "".join(lines)}
        elif error is None:
            self.values |= {"success": True, "end_time": _now()}
        write_json(self.file, self.values)
        return is_failure


def _now() -> str:
    return datetime.now(UTC).isoformat()


METHODS = ("grpo", "kto")
Examples = list[GRPOExample] | list[KTOExample] | list[dict[str, str]]


class TrainingPipeline:
    """``output_dir``: by default ``~/.toolbox/rl_training/{agent_name}``. Raises UsageError for an unknown method."""

    def __init__(
        self,
        agent_name: str,
        base_model: str = "Qwen/Qwen2.5-1.5B-Instruct",
        output_dir: Path | str | None = None,
        method: str = "grpo",
        storage_path: Path | str | None = None,
    ) -> None:
        require_known("method", method, METHODS)
        self.agent_name, self.base_model, self.method = agent_name, base_model, method
        own = toolbox.data_folder() / toolbox.TRAINING / agent_name
        self.output_dir = Path(output_dir) if output_dir else own
        self.output_dir.mkdir(parents=True, exist_ok=True)
        self.hw_config = detect_hardware(self.output_dir)
        self.training_config = TrainingConfig.from_hardware_config(
            self.hw_config, base_model=base_model, output_dir=str(self.output_dir), method=method
        )
        self.dataset_pipeline = DatasetPipeline(agent_name, storage_path)
        self.trainer: RLTrainer | None = None
        self.dataset: Examples | None = None
        self._scorer: Scorer | None = None
        self.model_path = self.gguf_path = ""

    def prepare_data(self, min_examples: int = 2) -> Examples:
        """Writes ``{method}.jsonl`` too. Where GRPO has too few groups of stored answers it takes prompts, if one of the
        pipeline's rewards can judge what is generated. Raises NotEnoughData."""
        path = self.output_dir / f"{self.method}.jsonl"
        pipeline = self.dataset_pipeline
        made: Examples = pipeline.build_kto_dataset(path) if self.method == "kto" else pipeline.build_grpo_dataset(path)
        judges = pipeline.reward_engine.of_fresh_answers()
        if len(made) < min_examples and self.method == "grpo" and judges:
            made, self._scorer = pipeline.build_prompts(), judges.score
        if len(made) < min_examples:
            raise NotEnoughData(
                f"{self.agent_name} has {len(made)} examples for {self.method}, and {min_examples} are needed; kto takes "
                "single answers that are labelled, grpo several different answers to one question, or questions alone where "
                "a reward can judge what is answered anew"
            )
        self.dataset = made
        return made

    def train(self, reward_funcs: Sequence[RewardFunction] | None = None, report: Report = silent) -> dict[str, Any]:
        """What ``training_stats.json`` says. Raises what the method raises."""
        dataset = self.prepare_data() if self.dataset is None else self.dataset
        self.trainer = RLTrainer(self.training_config)
        self.trainer.train(dataset, reward_funcs, report, self._scorer)
        return self.trainer.training_stats

    def save(self, merge_lora: bool = True) -> str:
        if self.trainer is None:
            raise UsageError("nothing is trained yet: call train() first")
        self.model_path = self.trainer.save_model(merge_lora=merge_lora)
        return self.model_path

    def export_to_gguf(self, quantization: str = "Q4_K_M") -> str:
        """Exports what was saved; saves it first where that was not done."""
        exporter = GGUFExporter(self.model_path or self.save(), output_dir=self.output_dir / "gguf")
        self.gguf_path = exporter.convert(quantization, f"{self.agent_name}-{quantization.upper()}.gguf")
        return self.gguf_path

    def deploy_to_ollama(self, model_name: str | None = None) -> str:
        """Raises RuntimeError where Ollama does not answer."""
        deployer, path = OllamaDeployer(), self.gguf_path or self.export_to_gguf()
        return deployer.create_model(model_name or f"toolbox-{self.agent_name}", path)

    def run_full_pipeline(
        self, reward_funcs: Sequence[RewardFunction] | None = None, deploy_ollama: bool = True
    ) -> dict[str, Any]:
        """All steps. A failure is told in the result, as ``error``; also written to ``pipeline_results.json``."""
        about = {"agent_name": self.agent_name, "base_model": self.base_model, "method": self.method}
        with Steps(self.output_dir / "pipeline_results.json", **about) as results:
            results["dataset_size"] = len(self.prepare_data())
            results["training"] = self.train(reward_funcs)
            results["model_path"] = self.save()
            if deploy_ollama:
                results["ollama_model"] = self.deploy_to_ollama()
        return results.values


class ExportPipeline:
    """``output_dir``: by default ``export`` beside the model. Raises RuntimeError where Ollama does not answer."""

    def __init__(
        self, model_path: Path | str, model_name: str = "toolbox-agent", output_dir: Path | str | None = None
    ) -> None:
        self.model_path, self.model_name = Path(model_path), model_name
        self.output_dir = Path(output_dir) if output_dir else self.model_path.absolute().parent / "export"
        self.gguf_exporter = GGUFExporter(self.model_path, output_dir=self.output_dir)
        self.ollama_deployer = OllamaDeployer()

    def run(
        self, quantization: str = "Q4_K_M", system_prompt: str = "", hosting_profile: str = "auto"
    ) -> dict[str, Any]:
        """``hosting_profile``: auto or ryzen. Also written to ``export_results.json``."""
        self.output_dir.mkdir(parents=True, exist_ok=True)
        about = {"model_path": str(self.model_path), "model_name": self.model_name, "quantization": quantization}
        with Steps(self.output_dir / "export_results.json", **about) as results:
            path = self.gguf_exporter.convert(quantization)
            results["gguf_path"], results["gguf_size_mb"] = path, Path(path).stat().st_size / 2**20
            results["ollama_model"] = self.ollama_deployer.create_model(self.model_name, path, system_prompt)
            deployer = self.ollama_deployer
            profile = deployer.get_ryzen_profile() if hosting_profile == "ryzen" else deployer.get_auto_profile()
            described = ("name", "num_parallel", "num_ctx", "num_thread")
            results["hosting_profile"] = {name: getattr(profile, name) for name in described}
        return results.values


def quick_export(model_path: Path | str, model_name: str = "toolbox-agent", quantization: str = "Q4_K_M") -> str:
    """The name of the model that Ollama serves. Raises RuntimeError."""
    results = ExportPipeline(model_path, model_name).run(quantization)
    if not results["success"]:
        raise RuntimeError(f"export failed: {results['error']}")
    return str(results["ollama_model"])
