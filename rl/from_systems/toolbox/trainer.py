"""ToolBoxV2's RLTrainer over Ratchet's: rows in, an adapter and a merged model out. No agent, versions or gate."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Self

from rl.base.errors import Interrupted, NotEnoughData, UsageError
from rl.base.files import replacing, staged_directory, write_json
from rl.base.leaves import import_name, leaf
from rl.base.names import require_known
from rl.base.records import AnswerScore, Report, Scorer, TraceRecord, TrainingResult, silent
from rl.data_formatter import read_training_rows
from rl.data_formatter.runs import as_answer_messages
from rl.from_systems.site import core_trainer, resolve_base_model, set_up_site, write_weights
from rl.from_systems.toolbox.datasets import messages_of
from rl.from_systems.toolbox.training_config import TrainingConfig

logger = logging.getLogger(__name__)
RewardFunction = Callable[..., Sequence[float]]
"""``function(prompts=[...], completions=[...])`` gives a number from 0 to 1 for each completion."""


class RLTrainer:
    """``config.output_dir`` gets ``training_config.json``, the rows, checkpoints and the adapter."""

    def __init__(self, config: TrainingConfig) -> None:
        self.config, self.output_dir = config, Path(config.output_dir)
        self.model: Any = None
        self.tokenizer: Any = None
        self.training_stats: dict[str, Any] = {}
        self._weights: Path | None = None
        self.output_dir.mkdir(parents=True, exist_ok=True)
        config.save(self.output_dir / "training_config.json")
        if names := config.without_effect():
            logger.warning("without effect here: %s", ", ".join(names))

    def setup(self) -> Self:
        """Loads base model and tokenizer. Not needed before ``train``, which loads its own copy in place of this one."""
        set_up_site()
        loading, base = leaf("rl.lm.loading"), resolve_base_model(self.config.base_model)
        self.tokenizer = loading.load_tokenizer(base)
        self.model = loading.load_base(base)
        return self

    def train(
        self,
        dataset: Any,
        reward_funcs: Sequence[RewardFunction] | None = None,
        report: Report = silent,
        scorer: Scorer | None = None,
    ) -> TrainingResult:
        """``dataset``: examples, their dictionaries, or a ``datasets.Dataset``. With ``reward_funcs``, or else a ``scorer``,
        GRPO generates answers to its prompts; without, it takes the stored ones. Raises what the method raises."""
        set_up_site()
        self.model = None
        config = self.config.to_core()
        scorer = scorer_of(reward_funcs) if reward_funcs else scorer
        if scorer and self.config.method != "grpo":
            raise UsageError(f"reward_funcs are for grpo: {self.config.method} learns from labels")
        if self.config.method == "grpo":
            config = config.with_overrides({"rollouts": "online" if scorer else "offline"})
        rows = self.output_dir / "train.jsonl"
        write_rows(dataset, "prompts" if scorer else self.config.method, rows)
        trainer = core_trainer(self.config.method, self.config.base_model, self.output_dir, config, scorer)
        try:
            result: TrainingResult = trainer.train(rows, report=report)
        except Interrupted:  # what was learned until then is for ``save_model``
            if checkpoint := leaf("rl.lm.checkpoints").newest_complete(self.output_dir):
                self._weights = checkpoint
                steps = int(checkpoint.name.rpartition("-")[2])
                self.training_stats = {"method": self.config.method, "total_steps": steps, "stopped": True}
            raise
        self._weights = result.weights_dir
        self.training_stats = {
            "method": self.config.method,
            "training_time_seconds": result.seconds,
            "train_loss": result.final_loss,
            "epochs": self.config.num_epochs,
            "total_steps": result.steps,
        }
        return result

    def save_model(self, output_path: Path | str | None = None, merge_lora: bool = True) -> str:
        """The merged model, or the adapter alone, with its tokenizer. Raises UsageError before a training."""
        weights, base = self._require_weights(), resolve_base_model(self.config.base_model)
        target = Path(output_path) if output_path else self.output_dir / "final"
        target.parent.mkdir(parents=True, exist_ok=True)
        with staged_directory(target) as directory:
            write_weights(base, weights, directory, target.name, merge=merge_lora)
            write_json(directory / "training_stats.json", self.training_stats)
        return str(target)

    def evaluate(self, eval_dataset: Any, metrics: Sequence[str] | None = None) -> dict[str, float]:
        """How well the trained model tells better from worse answers of other rows of its method: ``eval_pairs``, how many
        could be made of them (of KTO's labels a good answer with a bad one, of GRPO's groups the best with the worst);
        ``eval_accuracy``, in how many it moved towards the better answer, away from the base model
        (which has 0.5); ``eval_margin``, by how many nats on average. ``metrics``: only these. Raises UsageError before a
        training, and NotEnoughData for rows without a contrast."""
        adapters = {"base": None, "new": self._require_weights()}
        rows, base = self.output_dir / "eval.jsonl", resolve_base_model(self.config.base_model)
        write_rows(eval_dataset, self.config.method, rows)
        read = read_training_rows(rows, self.config.method)
        keyed = [{**row, "prompt_key": json.dumps(row["prompt"], sort_keys=True)} for row in read]
        contrasts = import_name("rl.evaluation.held_out.contrasts")(self.config.method, keyed)
        score, length = leaf("rl.evaluation.torch.scoring").score_versions, self.config.max_seq_length
        scores = score(base, adapters, contrasts, max_length=length, report=silent) if contrasts else {}
        pairs = zip(*(scores.get(name, []) for name in adapters), strict=True)
        moved = [new.relative_to(base) for base, new in pairs if base and new]
        if not moved:
            what = "no rows make a better and a worse answer"
            raise NotEnoughData(f"{what}: give labels of both kinds, or groups of answers")
        figures = {
            "eval_pairs": float(len(moved)),
            "eval_accuracy": fmean(pair.credit for pair in moved),
            "eval_margin": fmean(pair.margin for pair in moved),
        }
        return {name: value for name, value in figures.items() if metrics is None or name in metrics}

    def get_training_summary(self) -> str:
        names = ("method", "base_model", "output_dir", "lora_r", "lora_alpha", "learning_rate", "num_epochs")
        values = {name: getattr(self.config, name) for name in names} | self.training_stats
        return "\n".join(f"{name}: {value}" for name, value in values.items())

    def _require_weights(self) -> Path:
        if self._weights is None:
            raise UsageError("nothing is trained yet: call train(dataset) first")
        return self._weights


def scorer_of(functions: Sequence[RewardFunction]) -> Scorer:
    """The mean of what they give."""

    def score(trace: TraceRecord) -> AnswerScore:
        parts = {}
        for function in functions:
            (value,) = function(prompts=[trace.question], completions=[trace.response])
            if not 0 <= value <= 1:
                raise UsageError(f"{_name(function)} gave {value!r}; a reward is a number from 0 to 1")
            parts[_name(function)] = float(value)
        return AnswerScore(fmean(parts.values()), parts)

    return score


def _name(function: RewardFunction) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


ROWS: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "kto": lambda row: {"completion": as_answer_messages(row["completion"]), "label": bool(row["label"])},
    "grpo": lambda row: {
        "completions": [as_answer_messages(text) for text in row["completions"]],
        "rewards": list(row["rewards"]),
    },
    "prompts": lambda _: {"details": {}},
}
"""Method to the columns of a row beside its prompt; ``prompts``: for answers that are generated while training."""


def write_rows(dataset: Any, kind: str, path: Path) -> int:
    """``dataset``: examples, dictionaries, or a ``datasets.Dataset``. How many were written. Raises UsageError for another
    method, or a row without a column that it needs."""
    require_known("method", kind, ROWS)
    rows, count = (row if isinstance(row, Mapping) else row.to_dict() for row in dataset), 0
    with replacing(path) as file:
        for count, row in enumerate(rows, start=1):
            try:
                made = {"prompt": messages_of(row["prompt"]), **ROWS[kind](row)}
            except (KeyError, TypeError) as error:
                raise UsageError(f"row {count} is not one of {kind}: it lacks {error}") from None
            file.write(json.dumps(made, ensure_ascii=False) + "\n")
    return count
