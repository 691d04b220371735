"""Supervised fine-tuning of the adapter on good answers, before a preference method starts from it and is held near it.

Preferences between answers that the model would never give teach little; a short imitation of the good ones first makes
them likely (Ouyang et al., 2022). The answers are those of the run's own training rows, each text once. The result is
kept in ``output_dir/warm-up``, so a resumed run does not imitate again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from datasets import Dataset, Features, List, Value
from peft import PeftModel
from transformers import PreTrainedModel
from trl import SFTConfig, SFTTrainer

from rl.training import fitting
from rl.training.log_probs import PromptAndAnswer
from rl.training.preparing import Start, write_arrow

ADAPTER = "warm-up"


def warmed_up(start: Start, model: PreTrainedModel, good: Iterable[PromptAndAnswer]) -> PreTrainedModel | PeftModel:
    """The model with a trainable adapter that has imitated the good answers; the model as it is where no job asks for it."""
    if not start.job.config.sft_epochs:
        return model
    target = start.job.output_dir / ADAPTER
    if not target.exists():
        model = _imitated(start, model, good)
    start.report("stage", {"name": "preparing"})
    return PeftModel.from_pretrained(model, str(target), is_trainable=True)


def _imitated(start: Start, model: PreTrainedModel, good: Iterable[PromptAndAnswer]) -> PreTrainedModel:
    """Leaves the adapter in its folder, and the model without it."""
    job, path = start.job, start.path("good.arrow")
    write_arrow(_rows(good), path, Features({name: List(Value("int32")) for name in ("input_ids", "labels")}))
    rows = Dataset.from_file(str(path))
    of_sft = {
        "num_train_epochs": job.config.sft_epochs,
        "max_steps": -1,
        "save_strategy": "no",
        "max_length": None,  # the rows fit already
        "dataset_kwargs": {"skip_prepare_dataset": True},
    }
    trainer = SFTTrainer(
        model=model,
        args=fitting.arguments(SFTConfig, job.config, start.scratch / "sft", **of_sft),
        train_dataset=rows,
        processing_class=start.tokenizer,
        peft_config=fitting.lora(job.config),
    )
    start.report("log", {"text": f"imitates {len(rows)} good answers first"})
    fitting.fit(trainer, job, None, start.report, stage="imitating good answers")
    policy = trainer.accelerator.unwrap_model(trainer.model)
    fitting.publish_lora(policy, start.scratch / ADAPTER, job.output_dir / ADAPTER)
    return policy.unload()


def _rows(good: Iterable[PromptAndAnswer]) -> Iterator[dict[str, list[int]]]:
    """Each text once, in the order in which it comes."""
    seen: set[int] = set()
    for prompt, answer in good:
        key = hash((tuple(prompt), tuple(answer)))
        if key not in seen:
            seen.add(key)
            yield {"input_ids": prompt + answer, "labels": [-100] * len(prompt) + answer}
