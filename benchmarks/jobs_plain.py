"""Plain imitation: TRL's SFTTrainer on the accepted answers, with no gate and nothing held out."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import jobs_test
from datasets import Dataset, disable_progress_bars
from learning_arms import LINEAR, TOP_LAYERS
from learning_models import Base
from peft import LoraConfig

from rl.data_formatter.answer_kinds import AnswerKind
from rl.lm import loading

RATES: Final = (3e-4, 5e-4, 1e-3)
PASSES: Final = (2, 4, 8)


def best(
    base: Base, rows: Sequence[dict[str, Any]], test: Sequence[tuple[str, str]], kind: AnswerKind, folder: Path
) -> dict[str, Any]:
    """The most right answers of all settings; CPU seconds of that one."""
    tried = []
    for rate in RATES:
        for passes in PASSES:
            started = time.process_time()
            adapter = train(base, rows, folder / f"{rate:g}-{passes}", rate, passes)
            seconds = time.process_time() - started
            counted = jobs_test.count(jobs_test.ask(base, adapter, test), test, kind)
            tried.append({"rate": rate, "passes": passes, "cpu_seconds": round(seconds, 1), **counted})
    return {**max(tried, key=lambda one: int(one["right"])), "tried": tried}


def train(base: Base, rows: Sequence[dict[str, Any]], folder: Path, rate: float, passes: int) -> Path:
    from trl import SFTConfig, SFTTrainer

    disable_progress_bars()
    layers = len(base.model.model.layers)
    trainer = SFTTrainer(
        model=base.model,
        args=SFTConfig(
            output_dir=str(folder),
            num_train_epochs=passes,
            per_device_train_batch_size=8,
            learning_rate=rate,
            warmup_steps=0.1,
            completion_only_loss=True,
            max_length=None,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=loading.device().type == "cpu",
            bf16=False,
            seed=0,
            logging_steps=1000,
        ),
        train_dataset=Dataset.from_list([{"prompt": row["prompt"], "completion": row["chosen"]} for row in rows]),
        processing_class=base.tokenizer,
        peft_config=LoraConfig(
            r=16,
            lora_alpha=32,
            target_modules=LINEAR,
            layers_to_transform=list(range(layers - TOP_LAYERS, layers)),
            task_type="CAUSAL_LM",
        ),
    )
    trainer.train()
    trainer.model.save_pretrained(folder / "adapter", save_embedding_layers=False)
    base.model = trainer.model.unload()
    return folder / "adapter"
