"""Command Center's way to a model over Ratchet's: ``prepare_training_dataset`` with its arguments, rows in memory of a
training set that is frozen here; ``CommandCenterDPOTrainer``, rows in, an adapter out, without agent, versions or gate;
and ``export_to_ollama`` with its arguments and its result."""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef

from rl import dataset_builder
from rl.base.errors import NotEnoughData, RatchetError, UsageError
from rl.base.files import replacing
from rl.base.leaves import import_name, leaf
from rl.base.records import silent
from rl.config import preset
from rl.data_formatter.runs import as_answer_messages
from rl.dataset_builder.frozen.files import HELD_OUT, TRAIN
from rl.dataset_builder.read.ratings import DatabaseSource
from rl.dataset_builder.training_dataset import AGENT
from rl.export import release
from rl.from_systems.site import core_trainer, resolve_base_model
from rl.models import Agent, Trace

COLUMNS = ("prompt", "chosen", "rejected", "question_id")
MIN_SAMPLES, VAL_SPLIT = 50, 0.1


class ChatRows(list[dict[str, Any]]):
    """Prompts and answers are lists of chat messages."""

    column_names = list(COLUMNS)
    num_rows = property(len)


def prepare_training_dataset(
    source: str = "db",
    data_path: Path | str | None = None,
    ratings_path: Path | str | None = None,
    pair_type: str = "both",
    min_samples: int = MIN_SAMPLES,
    val_split: float | None = None,
    agent: str | None = None,
) -> dict[str, ChatRows]:
    """``train`` and ``validation``. ``agent``: whose answers; by default the only one that has widgets. Raises ValueError
    where it is too little, UsageError and BadFile."""
    try:
        frozen = dataset_builder.prepare_training_dataset(
            source=source,
            data_path=data_path,
            ratings_path=ratings_path,
            pair_type=pair_type,
            min_samples=min_samples,
            val_split=VAL_SPLIT if val_split is None else val_split,
            agent=agent or the_agent(),
        )
    except NotEnoughData as error:
        raise ValueError(str(error)) from error
    return {
        "train": ChatRows(_read(frozen.directory / TRAIN)),
        "validation": ChatRows(_read(frozen.directory / HELD_OUT)),
    }


def the_agent() -> str:
    """The only agent with widgets; where none or several have some, the one that files are trained for."""
    widgets = Trace.objects.filter(agent=OuterRef("pk"), details__has_key="scenario")
    names = list(Agent.objects.filter(Exists(widgets)).values_list("name", flat=True)[:2])
    return names[0] if len(names) == 1 else AGENT


def get_fixture_descriptions(agent: str | None = None) -> dict[str, dict[str, str]]:
    """Scenario to the fixtures that the imported runs have shown, with their names in words."""
    known = Agent.objects.filter(name__iexact=agent or the_agent()).first()
    fixtures = DatabaseSource(known).fixtures() if known else {}
    return {
        scenario: {slug: slug.replace("_", " ").replace("-", " ") for slug in slugs}
        for scenario, slugs in fixtures.items()
    }


def _read(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield {**{name: row[name] for name in COLUMNS[:3]}, "question_id": row["prompt_key"]}


@dataclass(frozen=True, slots=True)
class TrainingResult:
    success: bool
    checkpoint_path: str = ""
    final_loss: float = 0.0
    train_samples: int = 0
    eval_samples: int = 0
    epochs_completed: float = 0.0
    error_message: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)


class CommandCenterDPOTrainer:
    """``config``: hyper-parameters of DPO by our names, over the preset ``config_name``. ``base_model``: a hub id or a
    folder; by default DEFAULT_BASE_MODEL. Raises UsageError."""

    def __init__(
        self, config: Mapping[str, Any] | None = None, config_name: str = "default", base_model: str = ""
    ) -> None:
        start = preset(config_name, "dpo")
        self.config = start.with_overrides(dict(config or {}))
        self.base_model = base_model or settings.DEFAULT_BASE_MODEL
        self.model: Any = None
        self.tokenizer: Any = None
        self.checkpoint_path: Path | None = None

    def load_base_model(self) -> None:
        """Not needed before ``train``, which loads its own copy in place of this one."""
        loading, base = leaf("rl.lm.loading"), resolve_base_model(self.base_model)
        self.tokenizer, self.model = loading.load_tokenizer(base), loading.load_base(base)

    def train(
        self,
        train_dataset: Iterable[Mapping[str, Any]],
        eval_dataset: Iterable[Mapping[str, Any]] | None = None,
        output_dir: Path | str | None = None,
        resume_from_checkpoint: Path | str | None = None,
    ) -> TrainingResult:
        """Rows have ``prompt``, ``chosen`` and ``rejected``, texts or lists of messages. ``output_dir`` gets the checkpoints
        and ``final``. To resume, give a checkpoint below it. ``eval_dataset`` is counted only: a loss on a few rows does not
        say whether a model is better. What fails is told in the result."""
        output = Path(output_dir or settings.DATA_DIR / "command_center")
        rows, held_out = list(train_dataset), list(eval_dataset or ())
        self.model = None
        try:
            return self._train(rows, len(held_out), output, resume_from_checkpoint)
        except RatchetError as error:
            return TrainingResult(False, train_samples=len(rows), eval_samples=len(held_out), error_message=str(error))

    def save_checkpoint(self, path: Path | str) -> str:
        """Copies the adapter there. Raises UsageError before a training."""
        if self.checkpoint_path is None:
            raise UsageError("nothing is trained or loaded yet: call train(...) or load_checkpoint(path) first")
        shutil.copytree(self.checkpoint_path, path, dirs_exist_ok=True)
        return str(path)

    def load_checkpoint(self, path: Path | str) -> None:
        """Base model and adapter into ``model``. Raises UsageError for a folder without an adapter."""
        folder = Path(path)
        if not (folder / "adapter_config.json").is_file():
            raise UsageError(f"{folder} has no adapter_config.json: give an adapter's folder, such as output_dir/final")
        base, loading = resolve_base_model(self.base_model), leaf("rl.lm.loading")
        self.tokenizer = loading.load_tokenizer(base)
        self.model = import_name("peft.PeftModel").from_pretrained(loading.load_base(base), folder)
        self.checkpoint_path = folder

    def _train(
        self, rows: list[Mapping[str, Any]], held_out: int, output: Path, resume: Path | str | None
    ) -> TrainingResult:
        if resume is not None and not Path(resume).resolve().is_relative_to(output.resolve()):
            raise UsageError(f"{resume} is not a checkpoint below {output}: give the output_dir that it belongs to")
        file = output / "train.jsonl"
        output.mkdir(parents=True, exist_ok=True)
        with replacing(file) as lines:
            for number, row in enumerate(rows, 1):
                try:
                    prompt = row["prompt"]
                    made = {"prompt": [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt}
                    made |= {name: as_answer_messages(row[name]) for name in ("chosen", "rejected")}
                except KeyError as error:
                    raise UsageError(f"row {number} lacks {error}") from None
                made["prompt_key"] = str(row.get("question_id", number))
                lines.write(json.dumps(made, ensure_ascii=False) + "\n")
        trainer = core_trainer("dpo", self.base_model, output, self.config)
        result = trainer.train(file, resume=resume is not None)
        self.checkpoint_path = output / "final"
        shutil.copytree(result.weights_dir, self.checkpoint_path, dirs_exist_ok=True)
        batch = self.config.batch_size * self.config.gradient_accumulation
        epochs = min(float(self.config.epochs), result.steps * batch / max(1, len(rows)))
        return TrainingResult(
            True, str(self.checkpoint_path), result.final_loss, len(rows), held_out, epochs, "", dict(result.metrics)
        )


MODEL_NAME, QUANTIZATION = "cc-widget-selector", "q4_k_m"


@dataclass(frozen=True, slots=True)
class ExportResult:
    success: bool
    gguf_path: str = ""
    ollama_model_name: str | None = None
    error_message: str = ""
    file_size_mb: float = 0.0


def export_to_ollama(
    checkpoint_path: Path | str,
    model_name: str | None = None,
    base_model: str | None = None,
    quantization: str | None = None,
    output_dir: Path | str | None = None,
    register: bool = True,
) -> ExportResult:
    """Writes the GGUF file and, unless told otherwise, registers it at OLLAMA_URL. What fails is told in the result."""
    name = model_name or MODEL_NAME
    try:
        made = release.export_checkpoint(
            str(checkpoint_path),
            "gguf",
            quantization or QUANTIZATION,
            name=name,
            output=str(output_dir or ""),
            base=base_model or "",
            report=silent,
        )
        if register:
            import_name("rl.runs.exporter.register_file")(made, name, silent)
    except RatchetError as error:
        return ExportResult(False, error_message=str(error))
    megabytes = made.path.stat().st_size / 1_000_000
    return ExportResult(True, str(made.path), name if register else None, "", round(megabytes, 1))
