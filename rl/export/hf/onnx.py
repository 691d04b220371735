"""Exports an ONNX model, for ONNX Runtime and what is built on it: token ids and attention mask in, logits out.

Computed in float32, whatever the model is stored in: onnxruntime has few routines for bfloat16. The graph keeps no cache
of earlier tokens; it is for scoring, and for generating short answers."""

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy
import onnxruntime
import torch
from transformers.exporters import OnnxConfig, OnnxExporter

from rl.base.errors import ExportFailed
from rl.base.export_records import ExportJob, ExportResult
from rl.base.records import Report
from rl.base.slugs import check_slug
from rl.export.hf.loading import load_merged, load_tokenizer
from rl.export.staging import require_space, staged_directory
from rl.lm.loading import quiet
from rl.lm.reading import errors_as

FILE = "model.onnx"
_INPUTS = ("input_ids", "attention_mask")
_SHAPES = ((1, 7), (3, 12), (2, 33))
"""(sequences, tokens) that the check runs; each sequence after the first is shorter by a third, and padded."""
_ROOM = 1e-4
"""As a share of the largest logit."""


def export(job: ExportJob, report: Report) -> ExportResult:
    """Writes ``<output_dir>/onnx`` after comparing it with the model; ``job.quantization`` does not apply. Raises
    UsageError (no such model) or ExportFailed (an adapter that does not fit, a model that neither exporter can express,
    other logits in onnxruntime, a full disk)."""
    check_slug(job.name, "export name")
    quiet()
    final = job.output_dir / "onnx"
    with staged_directory(final) as directory:
        report("stage", {"name": "merge"})
        tokenizer = load_tokenizer(job.base_model, job.adapter_dir)
        model = load_merged(job.base_model, job.adapter_dir).float().eval()
        require_space(directory.parent, sum(weight.nbytes for weight in model.parameters()))
        tokenizer.save_pretrained(directory)
        model.config.save_pretrained(directory)
        model.generation_config.save_pretrained(directory)
        report("stage", {"name": "convert"})
        exporter = _write_graph(model, directory / FILE, report)
        report("stage", {"name": "check"})
        figures = check(model, directory / FILE)
    size = sum(path.stat().st_size for path in final.rglob("*") if path.is_file())
    details = {"exporter": exporter, "self_check": figures, "size_bytes": size}
    return ExportResult(path=final, quantization="f32", details=details)


def _write_graph(model: Any, path: Path, report: Report) -> str:
    """The name of the exporter that made it: that of transformers, else PyTorch's own."""
    model.config.use_cache = False
    sample = _inputs(model.config.vocab_size, 2, 6)
    with _silence():
        try:
            _by_transformers(model, sample, path)
            return "transformers"
        except Exception as error:  # noqa: BLE001  an experimental exporter raises whatever the model makes it raise
            reason = str(error).strip().splitlines() or [type(error).__name__]
            report("log", {"text": f"exported by torch.onnx, because the exporter of transformers failed: {reason[0]}"})
        with errors_as(ExportFailed, "this model cannot be exported as ONNX; export merged instead"):
            _by_torch(model, sample, path)
    return "torch.onnx"


def _by_transformers(model: Any, sample: dict[str, torch.Tensor], path: Path) -> None:
    exported = OnnxExporter().export(model, sample, OnnxConfig(dynamic=True))
    OnnxExporter.save_program(exported.program, path)


def _by_torch(model: Any, sample: dict[str, torch.Tensor], path: Path) -> None:
    axes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    torch.onnx.export(
        _Logits(model),
        (),
        path,
        kwargs=sample,
        input_names=list(_INPUTS),
        output_names=["logits"],
        dynamic_shapes=dict.fromkeys(_INPUTS, axes),
        dynamo=True,
        external_data=True,
        verbose=False,
    )


class _Logits(torch.nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


def check(model: Any, path: Path) -> dict[str, Any]:
    """The largest difference of a logit between onnxruntime and transformers. Raises ExportFailed beyond rounding."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    with _explain_failure("load"):
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    largest = 0.0
    for shape in _SHAPES:
        difference, limit = _difference(model, session, _inputs(model.config.vocab_size, *shape))
        if not difference <= limit:  # nor for logits that are not numbers
            raise ExportFailed(
                f"the ONNX model does not behave like the model: for {shape[0]} x {shape[1]} tokens a logit differs by "
                f"{difference:.3g}, at most {limit:.3g} is rounding; export merged instead"
            )
        largest = max(largest, difference)
    return {"shapes": len(_SHAPES), "max_logit_difference": float(f"{largest:.3g}")}


def _difference(model: Any, session: Any, inputs: dict[str, torch.Tensor]) -> tuple[float, float]:
    """The largest of a logit after any token that is not padding, and what is allowed."""
    with torch.inference_mode():
        right = model(**inputs).logits.numpy()
    with _explain_failure("run"):
        logits = session.run(["logits"], {name: values.numpy() for name, values in inputs.items()})[0]
    mask = inputs["attention_mask"].numpy() > 0
    return float(numpy.abs(logits - right)[mask].max()), _ROOM * float(numpy.abs(right[mask]).max())


def _inputs(vocabulary: int, sequences: int, tokens: int) -> dict[str, torch.Tensor]:
    """Random tokens, always the same ones; padded on the right."""
    generator = torch.Generator().manual_seed(sequences * tokens)
    ids = torch.randint(vocabulary, (sequences, tokens), generator=generator)
    mask = torch.ones_like(ids)
    mask[1:, tokens - tokens // 3 :] = 0
    return dict(zip(_INPUTS, (ids, mask), strict=True))


@contextmanager
def _explain_failure(what: str) -> Iterator[None]:
    """onnxruntime's exceptions have nothing but Exception in common."""
    try:
        yield
    except Exception as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise ExportFailed(f"onnxruntime cannot {what} the exported model: {reason[0]}") from error


@contextmanager
def _silence() -> Iterator[None]:
    """The exporters print, log and warn about their own inner life."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
