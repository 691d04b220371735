"""Exports one GGUF file, for llama.cpp, Ollama and what is built on them."""

from __future__ import annotations

from rl.base.export_records import ExportJob, ExportResult
from rl.base.records import Report
from rl.base.slugs import check_slug
from rl.config.levels import check_level
from rl.export.gguf.check import self_check
from rl.export.gguf.making import make, plan_making
from rl.export.gguf.types import describe_replaced
from rl.export.hf.loading import load_config
from rl.export.hf.merge import write_merged
from rl.export.staging import scratch_directory, staged_file


def export(job: ExportJob, report: Report) -> ExportResult:
    """Writes ``<output_dir>/gguf/<name>-<quantization>.gguf`` after comparing it with the model it came from.

    Raises UsageError (an unknown level, no such model) or ExportFailed (an architecture that cannot be exported, a
    missing package, a full disk, a file that llama.cpp runs differently); no file is left behind then.
    """
    level = check_level(job.quantization)
    making = plan_making(load_config(job.base_model), level)
    folder = job.output_dir / "gguf"
    final = folder / f"{check_slug(job.name, 'export name')}-{level}.gguf"
    with (
        scratch_directory(folder, "merged") as merged,
        scratch_directory(folder, "exact") as spare,
        staged_file(final) as partial,
    ):
        write_merged(job, merged, report)
        report("stage", {"name": "convert"})
        types = make(making, merged, partial, spare, job.name, report)
        report("stage", {"name": "check"})
        figures = self_check(partial, merged, level)
        size = partial.stat().st_size
    details = {"tensor_types": types, "quantizer": making.quantizer, "self_check": figures, "size_bytes": size}
    if warning := describe_replaced(level, types):
        report("log", {"text": warning})
        details["warning"] = warning
    return ExportResult(path=final, quantization=level, details=details)
