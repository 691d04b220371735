"""Imports run one way. The table is the one of docs/architecture.md."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = {"torch", "transformers", "trl", "peft", "datasets", "accelerate", "sklearn"}

# Files that only registries name: torch at the top, never the database.
TORCH_LEAVES = (
    "rl.training.dpo",
    "rl.training.kto",
    "rl.training.grpo",
    "rl.training.agent.train",
    "rl.training.agent.rollouts",
    "rl.training.agent.rows",
    "rl.training.agent.episodes",
    "rl.lm.generating",
    "rl.lm.chat.format",
    "rl.lm.chat.library",
    "rl.lm.chat.styles",
    "rl.lm.chat.template",
    "rl.lm.chat.tokens",
    "rl.lm.chat.turns",
    "rl.lm.minimind",
    "rl.training.ppo.train",
    "rl.training.ppo.checkpoint",
    "rl.training.ppo.math",
    "rl.training.ppo.networks",
    "rl.training.ppo.prompts",
    "rl.training.ppo.rollout",
    "rl.training.ppo.update",
    "rl.training.reward_model",
    "rl.training.reward_scoring",
    "rl.training.fresh_prompts",
    "rl.training.stored_groups",
    "rl.training.alive",
    "rl.training.warm_up",
    "rl.lm.processes",
    "rl.training.fitting",
    "rl.training.preparing",
    "rl.training.callbacks",
    "rl.training.label_model",
    "rl.lm.loading",
    "rl.lm.quantizing",
    "rl.runs.report.trackers",
    "rl.lm.tiny_model",
    "rl.evaluation.torch.scoring",
    "rl.evaluation.torch.answering",
    "rl.evaluation.torch.solving",
    "rl.evaluation.torch.speaking",
    "rl.evaluation.torch.divergence",
    "rl.lm.encoding",
    "rl.lm.log_probs",
    "rl.lm.resources",
    "rl.export.hf.merge",
    "rl.export.hf.lora",
    "rl.export.hf.onnx",
    "rl.export.gguf.export",
    "rl.export.gguf.check",
    "rl.export.gguf.convert",
    "rl.export.gguf.quantize",
    "rl.export.gguf.tokenizer",
    "rl.export.gguf.weights",
    "rl.export.hf.adapter",
    "rl.export.hf.base_weights",
    "rl.export.gguf.lora",
    "rl.export.gguf.lora_check",
    "rl.export.gguf.making",
    "rl.export.gguf.requantize",
    "rl.export.hf.merged_weights",
    "rl.export.hf.safetensors_writer",
    "rl.export.hf.loading",
)
# Base: standard library and psutil. They may see each other and nothing else of ours.
BASE = (
    "rl.base.errors", "rl.base.records", "rl.base.training_result", "rl.config", "rl.hardware", "rl.base.slugs", "rl.base.files", "rl.base.disk_space",
    "rl.sandbox",
    "rl.config.levels", "rl.base.export_records",
    "rl.config.reward_weights", "rl.config.guard_limits", "rl.base.find_process", "rl.base.logs",
)  # fmt: skip
# Pure: records in, records out; no Django.
PURE = (
    "rl.data_formatter",
    "rl.rewards",
    "rl.environments",
    "rl.collect.capture",
    "rl.collect.checkpoints",
    "rl.collect.command_center",
    "rl.collect.decisions",
    "rl.collect.importers.toolbox_checkpoint",
    "rl.collect.importers.toolbox_trace",
    "rl.collect.limits",
    "rl.collect.otlp",
    "rl.collect.traces.checks",
    "rl.collect.traces.imported",
    "rl.collect.importers.chat",
    "rl.collect.importers.fields",
    "rl.collect.importers.inflating",
    "rl.collect.importers.langfuse_answers",
    "rl.collect.importers.langfuse_score",
    "rl.collect.importers.langfuse_values",
    "rl.collect.importers.n3",
    "rl.collect.importers.ocd_decision",
    "rl.collect.importers.openai_chat",
    "rl.collect.importers.openai_preference",
    "rl.collect.importers.openwebui_feedback",
    "rl.collect.importers.parquet",
    "rl.collect.importers.rows",
    "rl.collect.importers.sharegpt",
    "rl.collect.importers.trl",
    "rl.collect.ingest.dry_run",
    "rl.collect.json_stream",
    "rl.collect.storable",
    "rl.evaluation.stats.intervals",
    "rl.evaluation.gate",
    "rl.evaluation.guards.answer_errors",
    "rl.evaluation.stats.bootstrap",
    "rl.evaluation.contest",
    "rl.evaluation.evidence",
    "rl.evaluation.guards.rails",
    "rl.evaluation.lm_eval.results",
    "rl.evaluation.lm_eval.task",
    "rl.evaluation.stats.mcnemar",
    "rl.evaluation.guards.refusals",
    "rl.evaluation.stats.sample_size",
    "rl.serving.experiments.sequential",
    "rl.serving.experiments.tallies",
    "rl.serving.experiments.verdicts",
    "rl.serving.experiments.wording",
    "rl.serving.allocation",
    "rl.demo.support",
    "rl.demo.phrases",
    "rl.demo.agent_tasks",
)
# Nobody imports these.
TOP = ("rl.tasks", "rl.web", "rl.admin", "rl.management")


def modules() -> dict[str, Path]:
    files = sorted((ROOT / "rl").rglob("*.py"))
    return {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


@cache
def imports_of(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def offenders(of: tuple[str, ...], is_forbidden) -> list[str]:
    return [
        f"{module} imports {name}"
        for module, file in modules().items()
        if within(module, of)
        for name in sorted(imports_of(file))
        if is_forbidden(name)
    ]


def is_ours(name: str) -> bool:
    return name == "rl" or name.startswith("rl.")


def test_the_base_sees_only_itself():
    def forbidden(name: str) -> bool:
        return (is_ours(name) and name != "rl" and not within(name, BASE)) or name.split(".")[0] in HEAVY | {"django"}

    assert offenders(BASE, forbidden) == []


def test_pure_modules_know_neither_django_nor_torch_nor_the_models():
    def forbidden(name: str) -> bool:
        return name.split(".")[0] in HEAVY | {"django"} or within(name, ("rl.models", *TOP))

    assert offenders(PURE, forbidden) == []


def test_torch_leaves_never_touch_the_database():
    def forbidden(name: str) -> bool:
        return name.split(".")[0] in {"django", "django_q"} or within(name, ("rl.models", *TOP))

    assert offenders(TORCH_LEAVES, forbidden) == []


def test_only_torch_leaves_import_torch():
    heavy = [
        f"{module} imports {name}"
        for module, file in modules().items()
        if not within(module, TORCH_LEAVES)
        for name in sorted(imports_of(file))
        if name.split(".")[0] in HEAVY
    ]
    assert heavy == []


def test_models_see_only_the_base_and_each_other():
    def forbidden(name: str) -> bool:
        return is_ours(name) and name != "rl" and not within(name, (*BASE, "rl.models", "rl.config.levels"))

    assert [line for line in offenders(("rl.models",), forbidden) if "rl.export" not in line.split()[-1]] == []


@pytest.mark.parametrize("top", TOP)
def test_nothing_below_imports_the_top(top: str):
    below = tuple(name for name in modules() if not within(name, TOP) and name not in ("rl", "rl.apps"))
    assert offenders(below, lambda name: within(name, (top,))) == []


def test_files_and_functions_stay_small():
    too_long = []
    for module, file in modules().items():
        if "migrations" in module:
            continue
        text = file.read_text()
        if text.count("\n") > 300:
            too_long.append(f"{module}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > 45:
                    too_long.append(f"{module}.{node.name}: {length} lines")
    assert too_long == []
