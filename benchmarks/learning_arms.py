"""Ways to make a model better from labels: TRL as it is, and Ratchet's.

All train adapters of rank 16 on the top third of the layers, at the same number of steps: what differs is what becomes of
the labels. With TRL's default learning rate of 1e-6 nothing would be learned, and at 2e-4 all 30 layers break.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from datasets import Dataset, disable_progress_bars
from learning_models import Base
from learning_raters import Label
from peft import LoraConfig

from rl.base.records import DirectPreference, Message, RatedAnswer, Vote, silent
from rl.config.automatic import settle
from rl.config.presets import preset
from rl.config.training_job import TrainingJob
from rl.data_formatter.labelled import pair_row
from rl.data_formatter.preference import build_preference_pairs
from rl.dataset_builder.read.groups import PromptGroup
from rl.dataset_builder.rows.mixed import votes_on
from rl.lm import loading

TOP_LAYERS: Final = 10
STOCK_RATE: Final = 2e-4
FASTER_RATE: Final = 3e-4
LEAST_STEPS: Final = 60
LINEAR: Final = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def train_stock_dpo(base: Base, labels: Sequence[Label], folder: Path, seed: int, rate: float = STOCK_RATE) -> Path:
    """The picks alone: a thumb has no counterpart."""
    from trl import DPOConfig, DPOTrainer

    rows = [
        {"prompt": _asked(label.prompt), "chosen": _answered(label.answer), "rejected": _answered(label.other)}
        for label in labels
        if label.other is not None
    ]
    return _train_stock(base, rows, folder, seed, DPOTrainer, partial(DPOConfig, learning_rate=rate))


def train_stock_dpo_faster(base: Base, labels: Sequence[Label], folder: Path, seed: int) -> Path:
    """At the rate of Ratchet's own run."""
    return train_stock_dpo(base, labels, folder, seed, FASTER_RATE)


def train_stock_kto(base: Base, labels: Sequence[Label], folder: Path, seed: int) -> Path:
    """A pick is a liked and a disliked answer."""
    from trl import KTOConfig, KTOTrainer

    rows = []
    for label in labels:
        rows.append({"prompt": _asked(label.prompt), "completion": _answered(label.answer), "label": label.up})
        if label.other is not None:
            rows.append({"prompt": _asked(label.prompt), "completion": _answered(label.other), "label": False})
    return _train_stock(base, rows, folder, seed, KTOTrainer, partial(KTOConfig, learning_rate=STOCK_RATE))


def _train_stock(base: Base, rows: list[dict[str, Any]], folder: Path, seed: int, trainer: Any, config: Any) -> Path:
    disable_progress_bars()
    batch = 4 if len(rows) <= 256 else 8
    steps = max(LEAST_STEPS, 2 * len(rows) // batch)
    adapter = LoraConfig(
        r=16,
        lora_alpha=32,
        target_modules=LINEAR,
        layers_to_transform=list(range(30 - TOP_LAYERS, 30)),
        task_type="CAUSAL_LM",
    )
    arguments = config(
        output_dir=str(folder / "stock"),
        per_device_train_batch_size=batch,
        max_steps=steps,
        seed=seed,
        bf16=False,
        gradient_checkpointing=False,
        precompute_ref_log_probs=True,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        logging_steps=20,
        use_cpu=loading.device().type == "cpu",
    )
    model = loading.load_base(base.folder, "fp32")
    running = trainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=base.tokenizer,
        peft_config=adapter,
    )
    running.train()
    running.model.save_pretrained(folder / "adapter")
    base.tokenizer.padding_side = "left"
    return folder / "adapter"


def train_ours(base: Base, labels: Sequence[Label], folder: Path, seed: int) -> Path:
    """MPO on every label, as the online learner trains."""
    return train_mpo(base, mixed_rows(labels), folder, seed)


def train_pairs(base: Base, labels: Sequence[Label], folder: Path, seed: int) -> Path:
    """MPO on the picks alone, without what thumbs add."""
    return train_ours(base, [label for label in labels if label.other is not None], folder, seed)


def train_with_fresh_answers(base: Base, labels: Sequence[Label], folder: Path, seed: int) -> Path:
    """Beside people's ratings, pairs of answers that the base model gives to the same questions."""
    return train_mpo(base, mixed_rows(labels), folder, seed, fresh_answers=4)


def train_mpo(base: Base, rows: Sequence[dict[str, Any]], folder: Path, seed: int, **overrides: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "train.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    from rl.runs.settling import model_shape

    config = preset("auto", "mpo").with_overrides({"seed": seed, **overrides})
    settled = settle(config, "mpo", len(rows), model_shape(Path(base.folder))).config
    from rl.training import mpo

    return mpo.train(TrainingJob(file, base.folder, settled, folder), silent).weights_dir


def mixed_rows(labels: Sequence[Label]) -> list[dict[str, Any]]:
    """What the dataset builder makes of such ratings: picks, liked against disliked answers to the same prompt, and every
    other answer alone."""
    rated: dict[tuple[str, str], list[Vote]] = {}
    groups = {label.prompt: PromptGroup(label.prompt) for label in labels}
    for number, label in enumerate(labels):
        prompt = tuple(_asked(label.prompt))
        if label.other is None:
            rated.setdefault((label.prompt, label.answer), []).append(Vote(f"{label.rater}", label.up))
        else:
            pick = DirectPreference(label.prompt, prompt, label.answer, label.other, number, rater=f"{label.rater}")
            groups[label.prompt].direct.append(pick)
    for number, ((prompt, text), votes) in enumerate(rated.items()):
        up = sum(vote.agrees for vote in votes)
        answer = RatedAnswer(f"{number}", prompt, tuple(_asked(prompt)), text, up, len(votes) - up, votes=tuple(votes))
        groups[prompt].answers.append(answer)
    rows = [
        pair_row(pair, list(votes_on(pair, group)))
        for group in groups.values()
        for pair in build_preference_pairs(group.answers, group.direct)
    ]
    in_pairs = {
        (row["prompt"][0]["content"], row[side][0]["content"]) for row in rows for side in ("chosen", "rejected")
    }
    for (prompt, text), votes in rated.items():
        if (prompt, text) not in in_pairs:
            chosen, rejected = (_answered(text), None) if votes[0].agrees else (None, _answered(text))
            own = [Vote(vote.rater, vote.agrees == votes[0].agrees) for vote in votes]
            sides = {"chosen": chosen, "rejected": rejected}
            rows.append({"prompt": _asked(prompt), "prompt_key": prompt, **sides, "weight": 1.0, "votes": own})
    return rows


def _asked(prompt: str) -> list[Message]:
    return [{"role": "user", "content": prompt}]


def _answered(text: str | None) -> list[Message]:
    return [{"role": "assistant", "content": text or ""}]


Train = Callable[[Base, Sequence[Label], Path, int], Path]
ARMS: Final[dict[str, Train]] = {
    "trl-dpo": train_stock_dpo,
    "trl-dpo-3e-4": train_stock_dpo_faster,
    "trl-kto": train_stock_kto,
    "ours": train_ours,
    "mpo-pairs": train_pairs,
    "fresh": train_with_fresh_answers,
}
