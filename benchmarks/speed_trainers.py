"""TRL's trainers as TRL sets them up, in fp32, and by their own switches, beside those of this project, on the same rows.

All have the same adapter, of which no matrix is zero, so that losses can be compared from the first step on, and a learning
rate at which they stay comparable.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
import trl.trainer.utils
from datasets import Dataset
from peft import LoraConfig
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    PrinterCallback,
    Trainer,
    TrainerCallback,
)
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer, RewardConfig, RewardTrainer

from benchmarks.speed_contest import EPOCHS, Turns, Way, time_once
from rl.base.records import silent
from rl.config import config_class
from rl.config.training_job import TrainingJob
from rl.hardware import cpu_runs_bf16
from rl.lm import loading
from rl.lm.lengths import TokenLimits
from rl.lm.log_probs import use_compact_head
from rl.training import dpo, fitting, kto, mpo, reward_model
from rl.training.preparing import Start
from rl.training.reward_scoring import load_scoring_base

STOCK: Final = {
    "dpo": (DPOTrainer, DPOConfig),
    "kto": (KTOTrainer, KTOConfig),
    "mpo": (DPOTrainer, DPOConfig),
    "reward_model": (RewardTrainer, RewardConfig),
}
OURS: Final = {"dpo": dpo, "kto": kto, "mpo": mpo, "reward_model": reward_model}
OF_METHOD: Final[dict[str, dict[str, Any]]] = {"mpo": {"loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 1.0]}}
"""By which TRL's trainer computes the same loss."""
DEFAULT, FP32, TUNED = "TRL", "TRL, fp32", "TRL, its own switches"
PLAIN, HALF, FAST = "ours, --no-fast", "ours, bf16", "ours"
IN_BF16: Final = (DEFAULT, HALF)
"""What others do in float32. They are timed where the processor has instructions for it."""
BALANCED: Final[dict[str, tuple[Any, ...]]] = {
    "kto": ({"desirable_weight": 1.0, "undesirable_weight": 1.0},),
    "mpo": (mpo.Balance(),),
}
"""What is said to our trainer about labels that weigh the same."""
SWITCHES: Final[dict[str, dict[str, Any]]] = {
    DEFAULT: {},
    FP32: {"bf16": False},
    TUNED: {"bf16": False, "gradient_checkpointing": False},
}
NEEDS_TRITON = trl.trainer.utils._use_triton
EMULATES_BF16: Final = not cpu_runs_bf16()
"""In which TRL computes by default: without instructions for it, a step takes minutes."""

NO_STEP: Final = 1e-9
"""A learning rate at which all ways keep the weights that they begin with."""


@dataclass(frozen=True)
class Setting:
    method: str
    base: Path
    rows: list[dict[str, Any]]
    batch: int
    scratch: Path
    layers: int = 0
    """From the top, that are trained; 0: all."""

    @property
    def dataset(self) -> Dataset:
        return Dataset.from_list(self.rows)

    def folder_of(self, name: str) -> Path:
        """Of one of the ways."""
        return self.scratch / name.replace(",", "").replace(" ", "-")

    def config(self, name: str = FAST) -> Any:
        """Of one of our ways."""
        values = {
            "batch_size": self.batch,
            "gradient_accumulation": 1,
            "lora_dropout": 0.0,
            "precision": "bf16" if name == HALF else "fp32",
            "epochs": EPOCHS,
        }
        values |= {"max_steps": len(self.rows) // self.batch, "learning_rate": NO_STEP, "save_steps": 1000}
        values |= {"reward_model": {"center_rewards": 0.0}, "mpo": {"sft_weight": 1.0, "beta": 0.1}}.get(
            self.method, {}
        )
        return config_class(self.method)().with_overrides(
            {**values, "train_layers": self.layers, "fast": name != PLAIN}
        )


def make_stock(setting: Setting, name: str, block: ExitStack) -> Way:
    trainer_class, config_of_trl = STOCK[setting.method]
    precomputes = name == TUNED and setting.method != "reward_model"
    steps = 1 if name == DEFAULT and EMULATES_BF16 else len(setting.rows) // setting.batch
    switches = dict(SWITCHES[name]) | ({"precompute_ref_log_probs": True} if precomputes else {})
    arguments = config_of_trl(
        output_dir=str(setting.folder_of(name)),
        per_device_train_batch_size=setting.batch,
        use_cpu=True,
        report_to=[],
        max_length=None,
        disable_tqdm=True,
        logging_steps=1,
        save_strategy="no",
        learning_rate=NO_STEP,
        max_steps=steps,
        **OF_METHOD.get(setting.method, {}),
        **switches,
    )
    use_head(compact=name == TUNED)
    trainer, cpu, wall = time_once(
        lambda: _without_preparing(trainer_class)(
            model=_load(setting),
            args=arguments,
            train_dataset=setting.dataset,
            processing_class=loading.load_tokenizer(str(setting.base)),
            peft_config=_lora(setting),
        )
    )
    fill_adapter(trainer)
    turns = train_in_turns(trainer, name == TUNED, block)
    return Way(
        name,
        turns.step,
        count=turns.count,
        once_cpu=cpu if precomputes else 0.0,
        once_wall=wall if precomputes else 0.0,
        once_batches=steps,
        most=steps,
    )


def make_ours(setting: Setting, name: str, block: ExitStack) -> Way:
    """``block``: within which the passes stay fast."""
    config = setting.config(name)
    scratch = setting.folder_of(name)
    scratch.mkdir()
    job = TrainingJob(scratch / "none.jsonl", str(setting.base), config, scratch)
    start = Start(job, silent, scratch, None, loading.load_tokenizer(str(setting.base)), TokenLimits(1024, 2048))
    use_head(compact=True)
    module: Any = OURS[setting.method]
    if setting.method == "reward_model":
        trainer = module._trainer(start, start.model(load_scoring_base), setting.dataset)
    else:
        trainer = module._trainer(start, start.model(), setting.dataset, *BALANCED.get(setting.method, ()))
    fill_adapter(trainer)
    block.enter_context(fitting.fast_passes(start, trainer.model))
    cpu = wall = 0.0
    if setting.method != "reward_model":
        _, cpu, wall = time_once(lambda: trainer.use_reference(config, silent))
    turns = train_in_turns(trainer, True, block)
    return Way(name, turns.step, cpu, wall, len(setting.rows) // setting.batch, count=turns.count)


def _without_preparing(kind: type[Trainer]) -> type[Trainer]:
    """The rows are token ids already."""

    class Prepared(kind):  # type: ignore[valid-type, misc]
        def _prepare_dataset(self, dataset: Dataset, *arguments: Any, **named: Any) -> Dataset:
            return dataset

    return Prepared


class _InTurns(TrainerCallback):
    def __init__(self, turns: Turns, compact: bool) -> None:
        self._turns, self._compact = turns, compact

    def on_step_begin(self, *arguments: Any, **named: Any) -> None:
        self._turns.wait()
        use_head(self._compact)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **named: Any) -> None:
        if logs and "loss" in logs:
            self._turns.hand_over(logs["loss"])


def train_in_turns(trainer: Trainer, compact: bool, block: ExitStack) -> Turns:
    """The trainer's own loop, a step at a time."""

    def loop(turns: Turns) -> None:
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(_InTurns(turns, compact))
        trainer.train()

    return block.enter_context(Turns(loop))


def use_head(compact: bool) -> None:
    if compact:
        use_compact_head()
    else:
        trl.trainer.utils._use_triton = NEEDS_TRITON


def _load(setting: Setting) -> Any:
    if setting.method != "reward_model":
        return AutoModelForCausalLM.from_pretrained(setting.base, dtype=torch.float32)
    return load_scoring_base(str(setting.base), "fp32")


def _lora(setting: Setting) -> LoraConfig:
    """As ours is."""
    model = AutoModelForSequenceClassification if setting.method == "reward_model" else AutoModelForCausalLM
    with torch.device("meta"):
        shape = model.from_config(loading.read_config(str(setting.base), RuntimeError))
    if setting.method == "reward_model":
        lora: LoraConfig = reward_model._lora(shape, setting.config())
        return lora
    return fitting.lora(shape, setting.config())


def fill_adapter(trainer: Trainer) -> None:
    """The same numbers in each, small ones."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in _trained(trainer):
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.02)


def _trained(trainer: Trainer) -> Iterator[torch.nn.Parameter]:
    named = sorted(trainer.model.named_parameters(), key=lambda entry: entry[0])
    return (weight for _, weight in named if weight.requires_grad)
