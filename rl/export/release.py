"""Exporting a version (or a bare checkpoint) and keeping account of the files. Imports no torch: formats are leaf files."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from math import comb
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from rl.base import files
from rl.base.errors import ExportFailed, UsageError
from rl.base.export_records import (
    DataFacts,
    EvaluationFacts,
    ExportJob,
    ExportResult,
    Provenance,
    card_path,
    version_file_path,
)
from rl.base.leaves import leaf
from rl.base.measurements import Interval
from rl.base.names import require_known
from rl.base.records import Report
from rl.base.slugs import check_slug
from rl.collect.feedback.kept_answers import read_kept_answers
from rl.config.levels import check_level
from rl.dataset_builder.frozen.files import FEEDBACK, read_feedback_ids
from rl.export import EXPORTERS
from rl.export.asking import answers_of, request_of
from rl.export.version_file import is_whole_export, version_document
from rl.lm import base_models
from rl.lm.model_path import base_of, check_weights, is_adapter, is_reward_model
from rl.models import Agent, Artifact, Evaluation, Feedback, ModelVersion, TrainingSet
from rl.operations import audit
from rl.versions import versions
from rl.versions.versions import artifact_fields, list_files

MODEL_CARD: Final = "rl.export.model_card"
"""Needs huggingface_hub; imported on first use."""
_FOLDERS: Final = ("merged", "lora", "onnx")
"""Formats that are a directory of that name: two models in one place would be one."""
_LONGEST_SLUG = 64
_MOST_EVALUATIONS = 5
_MEASURES = {"accuracy": "accuracy on held-out pairs", "reward": "mean reward of held-out prompts"}
_SUCCESS = "share of held-out tasks solved"


def export_version(
    version: ModelVersion, format_name: str, quantization: str, *, report: Report, name: str = "", output: str = ""
) -> Artifact:
    """Writes the files of one format below the version's directory (or ``output``) and records them."""
    base_model, adapter = _parts_of(version, report)
    job = ExportJob(
        base_model=base_model,
        adapter_dir=adapter,
        output_dir=Path(output).expanduser() if output else versions.version_directory(version),
        name=name or default_name(version),
        quantization=quantization,
    )
    if output:
        _require_free(format_name, job)
    result = export_files(format_name, job, provenance_of(version), report)
    with transaction.atomic():
        artifact, _ = Artifact.objects.update_or_create(
            version=version,
            kind=format_name,
            quantization=result.quantization,
            defaults={**artifact_fields(result.path.resolve(), result.files), "details": result.details},
        )
        version.move(ModelVersion.Stage.EXPORTED)
        audit.record(audit.Action.EXPORTED, version, path=artifact.path, sha256=artifact.sha256)
    return artifact


def default_name(version: ModelVersion) -> str:
    """``support-chat-v15``; a long agent's name is cut so that the whole stays a slug."""
    return name_of(version.agent.name, version.name)


def name_of(agent_name: str, ending: str) -> str:
    room = _LONGEST_SLUG - len(ending) - 1
    return f"{agent_name[:room].rstrip('._-')}-{ending}"


def artifact_path(artifact: Artifact) -> Path:
    return settings.DATA_DIR / artifact.path  # an absolute path stays as it is


def export_checkpoint(
    checkpoint: str,
    format_name: str,
    quantization: str,
    *,
    report: Report,
    name: str = "",
    output: str = "",
    base: str = "",
) -> ExportResult:
    """Exports the directory of an adapter or of a whole model that belongs to no version. ``base``: what an adapter was
    trained on, where its own configuration names no model or one that is elsewhere."""
    directory = check_weights(Path(checkpoint).expanduser(), UsageError)
    trained_from = base or _named_base(directory)
    base_model, adapter = _parts(directory, trained_from)
    job = ExportJob(
        base_model=base_model,
        adapter_dir=adapter,
        output_dir=Path(output).expanduser() if output else directory.absolute().parent,
        name=name or directory.absolute().name,
        quantization=quantization,
    )
    _require_free(format_name, job)
    return export_files(format_name, job, Provenance(base_model=trained_from), report)


def export_base(agent: Agent, quantization: str, *, report: Report) -> ExportResult:
    """The GGUF file of the agent's base model, below ``models/<agent>/base/``: made once, and found again as long as it is
    whole and of the same base model."""
    base_model, level = base_models.resolve(agent.base_model, report), check_level(quantization)
    job = ExportJob(
        base_model=base_model,
        adapter_dir=None,
        output_dir=settings.DATA_DIR / "models" / agent.name / "base",
        name=name_of(agent.name, "base"),
        quantization=level,
    )
    file = job.output_dir / "gguf" / f"{job.name}-{level}.gguf"
    if is_whole_export(file, base_model):
        return ExportResult(file, level, files=list_files(file))
    return export_files("gguf", job, Provenance(base_model=base_model), report)


def _named_base(directory: Path) -> str:
    """Empty for a whole model that does not say it, and needs none."""
    try:
        return base_of(directory)
    except UsageError as error:
        if is_adapter(directory):
            raise UsageError(f"{error}, or give --base-model") from None
        return ""


def _parts_of(version: ModelVersion, report: Report) -> tuple[str, Path | None]:
    if weights := versions.find_weights(version):
        return _parts(weights, version.base_model)
    return base_models.resolve(version.base_model, report), None


def _parts(weights: Path, base_model: str) -> tuple[str, Path | None]:
    """Base model and adapter to export; a whole model stands for itself."""
    return (base_model, weights) if is_adapter(weights) else (str(weights), None)


def _require_free(format_name: str, job: ExportJob) -> None:
    """Raises UsageError where the export would replace a directory that is not of the same model."""
    target = job.output_dir / format_name
    if format_name not in _FOLDERS or not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    name = leaf(MODEL_CARD).name_on_card(target)
    if name != job.name:
        what = f"holds the model {name}" if name else "holds something that was not exported here"
        raise UsageError(f"{target} {what}: give another --output, or remove it first")


def export_files(format_name: str, job: ExportJob, known: Provenance, report: Report) -> ExportResult:
    """Writes the files and the model card beside them. Raises UsageError for an unknown format or level or a bad name,
    ExportFailed for all that breaks on the way."""
    require_known("format", format_name, EXPORTERS)
    if is_reward_model(job.adapter_dir or Path(job.base_model)):
        raise UsageError(f"{job.name} is a reward model: it scores answers, and is not exported")
    check_level(job.quantization)
    check_slug(job.name, "model name")
    try:
        job.output_dir.mkdir(parents=True, exist_ok=True)
        result: ExportResult = leaf(EXPORTERS[format_name]).export(job, report)
        cards: Any = leaf(MODEL_CARD)
        card, document = card_path(result.path), version_file_path(result.path)
        for file in (card, document):
            file.unlink(missing_ok=True)
        exported_files = list_files(result.path)
        files.write_text(card, cards.model_card(format_name, job, result, exported_files, known))
        files.write_json(document, version_document(format_name, job, result, exported_files, known))
        details = {**result.details, "model_card": card.name, "version_file": document.name}
        return replace(result, details=details, files=list_files(result.path, exported_files))
    except OSError as error:
        raise ExportFailed(f"{job.output_dir}: {error.strerror or error}") from error


def provenance_of(version: ModelVersion) -> Provenance:
    run, kept = getattr(version.trained, "run", None), read_kept_answers(version.agent)
    return Provenance(
        manner=version.manner,
        told_where=version.get_instruction_place_display(),
        request=request_of(version, kept),
        answers=answers_of(kept),
        base_model=version.base_model,
        agent=version.agent.name,
        version=version.name,
        parent=version.parent.name if version.parent else "",
        method=run.method if run else "",
        hyperparameters=run.config if run else {},
        data=_data(run.training_set) if run and run.training_set else None,
        evaluations=tuple(map(_evaluation, version.evaluations.select_related("against")[:_MOST_EVALUATIONS])),
    )


def _data(training_set: TrainingSet) -> DataFacts:
    votes: dict[Any, Counter[str]] = defaultdict(Counter)
    raters: set[str] = set()
    for trace, rater, value in _ratings(training_set):
        assert value is not None  # noqa: S101  a constraint of the database
        votes[trace]["up" if value > 0.5 else "down" if value < 0.5 else "neutral"] += 1
        raters.add(rater)
    shared = agreeing = 0
    for counts in votes.values():
        shared += comb(sum(counts.values()), 2)
        agreeing += sum(comb(count, 2) for count in counts.values())
    return DataFacts(
        fingerprint=training_set.content_hash,
        source=training_set.source,
        train_rows=training_set.train_rows,
        heldout_rows=training_set.heldout_rows,
        feedback=training_set.feedback_count,
        ratings=sum(sum(counts.values()) for counts in votes.values()),
        raters=len(raters),
        shared_judgements=shared,
        agreeing=agreeing,
    )


def _ratings(training_set: TrainingSet) -> Iterator[tuple[Any, str, float | None]]:
    if not (training_set.directory / FEEDBACK).exists():
        return
    for part in Feedback.by_ids(read_feedback_ids(training_set.directory)):
        yield from part.filter(kind=Feedback.Kind.RATING).values_list("trace", "rater", "value")


def _evaluation(evaluation: Evaluation) -> EvaluationFacts:
    """The version in use is told of where there was one; without it, it was the base model."""
    names = {"new": "this version", "base": "base model"}
    if evaluation.against:
        names["current"] = f"{evaluation.against.name}, in use then"
    models = evaluation.report.get("models", {})
    measure = "accuracy" if "accuracy" in models.get("new", {}) else "reward"
    measured = {name: models[key][measure] for key, name in names.items() if measure in models.get(key, {})}
    return EvaluationFacts(
        date=evaluation.created_at.date().isoformat(),
        measure=_SUCCESS if evaluation.report.get("measure") == "success" else _MEASURES[measure],
        verdict=evaluation.verdict,
        reason=str(evaluation.report.get("reason", "")),
        figures={name: Interval(*(of[end] for end in ("value", "low", "high"))) for name, of in measured.items()},
    )
