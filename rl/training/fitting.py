"""What the trainers of all methods have in common: what is trained, the arguments, the loop, the result."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from torch import Tensor
from transformers import PreTrainedModel, PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from rl.base.errors import UsageError
from rl.base.files import publish_directory, write_json
from rl.base.records import Report, TrainingResult
from rl.config import TrainingConfig
from rl.config.training_job import TrainingJob
from rl.lm import checkpoints, loading, processes
from rl.lm.kept_scores import fingerprint
from rl.lm.lengths import LengthCount
from rl.lm.model_path import ADAPTER, MODEL, ORIGIN
from rl.lm.packed_layers import fused_adapters
from rl.lm.token_tree.sharing import shared_tokens
from rl.lm.trunk import kept_trunk, layers_of, linear_layers
from rl.training.callbacks import ProgressCallback, PublishedCheckpoints, steps_of
from rl.training.preparing import Start

Arguments = TypeVar("Arguments", bound=TrainingArguments)


def lora(model: PreTrainedModel, config: TrainingConfig) -> LoraConfig:
    """LoRA on every linear layer of the blocks that are trained, the head left out."""
    below = frozen_layers(model, config)
    count = len(layers_of(model)) if below else 0
    return LoraConfig(
        r=config.lora_r,
        lora_alpha=config.lora_alpha,
        lora_dropout=config.lora_dropout,
        target_modules=linear_layers(model) if below else "all-linear",
        layers_to_transform=list(range(below, count)) if below else None,
        task_type="CAUSAL_LM",
    )


def frozen_layers(model: PreTrainedModel, config: TrainingConfig) -> int:
    """How many layers, from the lowest, get no adapter."""
    return max(len(layers_of(model)) - int(config.train_layers), 0) if config.train_layers else 0


@contextmanager
def fast_passes(start: Start, model: PreTrainedModel | PeftModel, rereads: bool = True) -> Iterator[None]:
    """Within the block no pass computes what it need not: beginnings that its rows share are computed once, and the layers
    below the lowest adapter run once a text, where texts are read again (``rereads``). Recomputed activations and a model
    that is cut among processes need the passes as they are."""
    config, base = start.job.config, loading.base_within(model)
    whole = not (config.activation_checkpointing or processes.cuts_models())
    below = frozen_layers(base, config) if whole and rereads and not config.full else 0
    states = checkpoints.states_file(start.job.output_dir, processes.rank())
    mark = fingerprint(base, loading.autocast_dtype(config.precision)) if below else ""
    with kept_trunk(base, below, states, mark), ExitStack() as block:
        used = [f"the lowest {below} layers stay as they are and run once for each text"] if below else []
        if whole and config.fast and block.enter_context(shared_tokens(base, start.report)):
            used.append("beginnings that rows share are computed once a pass")
        if whole and config.fast and block.enter_context(fused_adapters(model)):
            used.append("adapters are computed with their layers")
        if used:
            start.report("log", {"text": "; ".join(used)})
        yield


def peft_config(model: PreTrainedModel | PeftModel, config: TrainingConfig) -> LoraConfig | None:
    """The adapter that a trainer has to add: none to a model that has one, or that is trained itself."""
    return None if config.full or isinstance(model, PeftModel) else lora(model, config)


def arguments(kind: type[Arguments], config: TrainingConfig, output_dir: Path, **of_the_method: Any) -> Arguments:
    device = loading.device()
    values = {
        "output_dir": str(output_dir),
        "num_train_epochs": config.epochs,
        "max_steps": int(config.max_steps) or -1,
        **batches(config),
        "learning_rate": config.learning_rate,
        "lr_scheduler_type": "cosine",
        "warmup_steps": min(config.warmup_ratio, 1 - 1e-9),  # 1 and more would count steps
        "max_grad_norm": config.max_grad_norm,
        "bf16": loading.uses_bf16(config.precision),
        "activation_checkpointing": config.activation_checkpointing,
        "gradient_checkpointing": config.activation_checkpointing,
        "use_cpu": device.type == "cpu",
        "dataloader_pin_memory": device.type != "cpu",
        "seed": int(config.seed),
        "save_strategy": "steps",
        "save_steps": int(config.save_steps),
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "report_to": [],
        "disable_tqdm": True,
    }
    made = kind(**{**values, **of_the_method})
    if made.n_gpu > 1:
        made._n_gpu = 1  # otherwise Trainer spreads the model over all GPUs, which TRL refuses
    return made


def parts(
    start: Start,
    model: PreTrainedModel | PeftModel,
    rows: Dataset,
    kind: type[TrainingArguments],
    config: TrainingConfig | None = None,
    folder: str = "",
    held_out: Dataset | None = None,
    **of_the_method: Any,
) -> dict[str, Any]:
    """What any of TRL's trainers is made of. ``config``: in place of the job's; ``folder``: within the scratch folder;
    ``held_out``: rows that are measured after each pass."""
    config = config or start.job.config
    a_pass = batches(config)["per_device_train_batch_size"]
    looks: dict[str, Any] = {"eval_strategy": "epoch", "per_device_eval_batch_size": a_pass} if held_out else {}
    return {
        "eval_dataset": held_out or None,
        "model": model,
        "args": arguments(kind, config, start.scratch / folder, **{**looks, **of_the_method}),
        "train_dataset": rows,
        "processing_class": start.tokenizer,
        "peft_config": peft_config(model, config),
    }


class LooksOnly:
    """Mixed into TRL's trainers: a look at what was held out draws no random numbers that training would have drawn."""

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        with torch.random.fork_rng(devices=()):
            return super().evaluate(*args, **kwargs)  # type: ignore[misc]


def batches(config: TrainingConfig) -> dict[str, int]:
    """``batch_size`` and ``gradient_accumulation`` are of all processes together: a step stays the same."""
    rows, passes, processes_there = int(config.batch_size), int(config.gradient_accumulation), processes.count()
    if rows % processes_there == 0:
        rows //= processes_there
    elif passes % processes_there == 0:
        passes //= processes_there
    else:
        raise UsageError(
            f"neither batch_size {rows} nor gradient_accumulation {passes} can be shared by {processes_there} processes"
        )
    return {"per_device_train_batch_size": rows, "gradient_accumulation_steps": passes}


def fit(
    trainer: Trainer,
    job: TrainingJob,
    checkpoint: Path | None,
    report: Report,
    stage: str = "training",
    watches: Iterable[TrainerCallback] = (),
) -> None:
    """Raises Interrupted, after a checkpoint, when ``report`` does."""
    report = processes.reporter(report)
    progress = ProgressCallback(report, job.config.MOST_KL)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(progress)
    trainer.add_callback(PublishedCheckpoints(job.output_dir))
    for callback in watches:
        trainer.add_callback(callback)
    report("stage", {"name": stage})
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if progress.stopped is not None:
        raise progress.stopped


def publish(trainer: Trainer, start: Start, name: str = "") -> Path:
    """The adapter, or the whole model, appears in the run's folder, with its tokenizer: transformers loads both from there.
    ``name``: instead of that of its kind."""
    state = None
    if processes.cuts_models():  # each process has a part of the weights
        state = trainer.accelerator.get_state_dict(trainer.deepspeed or trainer.model)
    return publish_weights(trainer.accelerator.unwrap_model(trainer.model), start, name, state)


def publish_weights(
    model: PreTrainedModel | PeftModel, start: Start, name: str = "", state: Mapping[str, Tensor] | None = None
) -> Path:
    """As ``publish``; ``state``: the whole weights, where the model has not."""
    name = name or (ADAPTER if isinstance(model, PeftModel) else MODEL)
    unfinished, target = start.scratch / name, start.job.output_dir / name
    if processes.is_first():
        if isinstance(model, PeftModel):
            # "auto" would ask the hub whether the vocabulary has grown.
            chosen: dict[str, Any] = {"selected_adapters": ["default"], "save_embedding_layers": False}
            model.save_pretrained(unfinished, state_dict=state, **chosen)
        else:
            model.config.use_cache = True  # training turns it off, and generating is slow without
            model.save_pretrained(unfinished, state_dict=state, max_shard_size=loading.SHARD)
            write_json(unfinished / ORIGIN, {"base_model": start.job.base_model})
        loading.load_tokenizer(start.job.base_model, start.job.config.manner).save_pretrained(unfinished)
        publish_directory(unfinished, target)
    processes.wait()
    return target


def finish(trainer: Trainer, start: Start, lengths: LengthCount) -> TrainingResult:
    """Publishes what was trained. Figures come from the log, which a checkpoint carries: those of the last attempt alone
    would be half the story."""
    weights = publish(trainer, start)
    steps = steps_of(trainer.state.log_history)
    trainable = sum(weight.numel() for weight in trainer.model.parameters() if weight.requires_grad)
    counts = {"trainable_parameters": trainable, "cut_rows": lengths.cut, **left_out(lengths)}
    return summary(weights, trainer.state.global_step, steps, counts, time.monotonic() - start.began)


def left_out(lengths: LengthCount) -> dict[str, int]:
    """Rows whose prompt is too long, and those that the chat template refuses."""
    return {"dropped_rows": lengths.dropped, "refused_rows": lengths.refused.total()}


def summary(
    weights: Path, step: int, steps: Sequence[Mapping[str, float]], counts: Mapping[str, int], seconds: float
) -> TrainingResult:
    """``steps``: the metrics of each, all attempts together."""
    tail = steps[-max(1, len(steps) // 10) :]
    return TrainingResult(
        weights_dir=weights,
        steps=step,
        final_loss=sum(metrics["loss"] for metrics in tail) / len(tail),
        metrics={name: value for step in steps for name, value in step.items()}
        | {name: float(count) for name, count in counts.items()},
        seconds=seconds,
        history=tuple(steps),
    )
