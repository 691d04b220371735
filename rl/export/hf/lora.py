"""Exports the adapter alone, for PEFT: its weights and a configuration that names its base, and nothing else of the run."""

import json
import shutil

from rl.base.errors import ExportFailed, UsageError
from rl.base.export_records import ExportJob, ExportResult
from rl.base.records import Report
from rl.base.slugs import check_slug
from rl.export.hf.adapter import Adapter
from rl.export.hf.loading import load_config, skeleton
from rl.export.staging import require_space, staged_directory
from rl.lm.loading import quiet
from rl.lm.model_path import ADAPTER_CONFIG, ADAPTER_WEIGHTS


def export(job: ExportJob, report: Report) -> ExportResult:
    """Writes ``<output_dir>/lora``; ``job.quantization`` does not apply. Raises UsageError without an adapter, and
    ExportFailed for one that is unfinished, damaged or of another base model."""
    check_slug(job.name, "export name")
    quiet()
    adapter = open_adapter(job)
    report("stage", {"name": "copy"})
    # every one is read, so that a damaged one is found
    dtypes = [str(adapter.weights.tensor(name).dtype).removeprefix("torch.") for name in adapter.weights.shapes]
    if not dtypes:
        raise ExportFailed(f"the adapter {adapter.directory} holds no weights")
    dtype = dtypes[0]
    final = job.output_dir / "lora"
    with staged_directory(final) as directory:
        require_space(job.output_dir, (adapter.directory / ADAPTER_WEIGHTS).stat().st_size)
        shutil.copyfile(adapter.directory / ADAPTER_WEIGHTS, directory / ADAPTER_WEIGHTS)
        clean = adapter.config | {"base_model_name_or_path": job.base_model, "inference_mode": True}
        (directory / ADAPTER_CONFIG).write_text(json.dumps(clean, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    size = sum(path.stat().st_size for path in final.iterdir())
    return ExportResult(path=final, quantization=dtype, details={"size_bytes": size})


def open_adapter(job: ExportJob) -> Adapter:
    if job.adapter_dir is None:
        raise UsageError("there is no adapter to export, but a whole model: export it as merged or gguf")
    return Adapter(job.adapter_dir, skeleton(load_config(job.base_model), job.base_model), job.base_model)
