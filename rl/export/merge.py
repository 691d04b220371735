"""Exports a merged model: a directory of safetensors, tokenizer, chat template and generation config."""

from __future__ import annotations

from pathlib import Path

from rl.errors import ExportFailed
from rl.export.loading import load_merged, load_tokenizer
from rl.export.records import ExportJob, ExportResult
from rl.export.staging import require_space, staged_directory
from rl.records import Report
from rl.slugs import check_slug
from rl.training.loading import SHARD, quiet


def export(job: ExportJob, report: Report) -> ExportResult:
    """Writes ``<output_dir>/merged``; ``job.quantization`` does not apply.

    Raises UsageError (no such model) or ExportFailed (an adapter that does not fit, a full disk).
    """
    check_slug(job.name, "export name")
    final = job.output_dir / "merged"
    with staged_directory(final) as directory:
        dtype = write_merged(job, directory, report)
    size = sum(path.stat().st_size for path in final.rglob("*") if path.is_file())
    return ExportResult(path=final, quantization=dtype, details={"size_bytes": size})


def write_merged(job: ExportJob, directory: Path, report: Report) -> str:
    """Fills ``directory`` with the merged model; returns the name of its weights' dtype."""
    quiet()
    report("stage", {"name": "merge"})
    tokenizer = load_tokenizer(job.base_model, job.adapter_dir)
    model = load_merged(job.base_model, job.adapter_dir)
    require_space(directory.parent, sum(weight.nbytes for weight in model.parameters()))
    try:
        tokenizer.save_pretrained(directory)
        model.save_pretrained(directory, max_shard_size=SHARD)
    except ValueError as error:
        raise ExportFailed(f"cannot save the merged model: {str(error).splitlines()[0]}") from error
    return str(model.dtype).removeprefix("torch.")
