"""llama.cpp's C functions, called by ctypes in the extension of xllamacpp, for what its server cannot tell: the logits of
given text.

Only the child process (``llama_child``) imports this: a bad file may end the process. The structures of parameters are
written down as far as they are set here (``llama.h`` of llama.cpp 0.6.0); the defaults are read back first, and a build
whose defaults are others is refused, since its structures are others too."""

import ctypes as c
import importlib.util
import os
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy

BATCH = 128
"""Tokens computed at a time: of each, llama.cpp keeps the logits of the whole vocabulary."""
_F32, _DECODE, _NO_FLASH_ATTENTION = 0, 1, 0
_ALL_LAYERS, _BY_LAYER, _AUTO = -1, 1, -1
_ERROR = 4
_REST = c.c_uint8 * 512
"""Room for the fields that are left as they are, and for those that a later version appends."""

_MODEL: dict[str, tuple[Any, Any]] = {
    "devices": (c.c_void_p, None),
    "tensor_buft_overrides": (c.c_void_p, None),
    "n_gpu_layers": (c.c_int32, _ALL_LAYERS),
    "split_mode": (c.c_int32, _BY_LAYER),
    "load_mode": (c.c_int32, _AUTO),
    "lazy_mode": (c.c_int32, 1),
    "main_gpu": (c.c_int32, 0),
    "tensor_split": (c.c_void_p, None),
    "progress_callback": (c.c_void_p, None),
    "progress_data": (c.c_void_p, None),
    "kv_overrides": (c.c_void_p, None),
    "vocab_only": (c.c_bool, False),
    "check_tensors": (c.c_bool, False),
    "use_extra_bufts": (c.c_bool, True),
    "no_host": (c.c_bool, False),
}
_CONTEXT: dict[str, tuple[Any, Any]] = {
    "n_ctx": (c.c_uint32, 512),
    "n_batch": (c.c_uint32, 2048),
    "n_ubatch": (c.c_uint32, 512),
    "n_seq_max": (c.c_uint32, 1),
    "n_rs_seq": (c.c_uint32, 0),
    "n_outputs_max": (c.c_uint32, 0),
    "n_outputs_max_per_seq": (c.c_uint32, 1),
    "n_threads": (c.c_int32, 4),
    "n_threads_batch": (c.c_int32, 4),
    "ctx_type": (c.c_int32, 0),
    "rope_scaling_type": (c.c_int32, _AUTO),
    "pooling_type": (c.c_int32, _AUTO),
    "attention_type": (c.c_int32, _AUTO),
    "flash_attn_type": (c.c_int32, _AUTO),
    "rope_freq_base": (c.c_float, 0.0),
    "rope_freq_scale": (c.c_float, 0.0),
    "yarn_ext_factor": (c.c_float, -1.0),
    "yarn_attn_factor": (c.c_float, -1.0),
    "yarn_beta_fast": (c.c_float, -1.0),
    "yarn_beta_slow": (c.c_float, -1.0),
    "yarn_orig_ctx": (c.c_uint32, 0),
    "defrag_thold": (c.c_float, -1.0),
    "cb_eval": (c.c_void_p, None),
    "cb_eval_data": (c.c_void_p, None),
    "type_k": (c.c_int32, 1),
    "type_v": (c.c_int32, 1),
}
"""Field to its type and its default; None for pointers, which are not looked at."""


class _ModelParameters(c.Structure):
    _fields_ = [*((name, kind) for name, (kind, _) in _MODEL.items()), ("rest", _REST)]


class _ContextParameters(c.Structure):
    _fields_ = [*((name, kind) for name, (kind, _) in _CONTEXT.items()), ("rest", _REST)]


_POINTERS: dict[str, list[Any]] = {
    "llama_model_load_from_file": [c.c_char_p, _ModelParameters],
    "llama_init_from_model": [c.c_void_p, _ContextParameters],
    "llama_adapter_lora_init": [c.c_void_p, c.c_char_p],
    "llama_model_get_vocab": [c.c_void_p],
    "llama_get_memory": [c.c_void_p],
    "llama_batch_ext_init": [c.c_void_p],
}
_NUMBERS: dict[str, list[Any]] = {
    "llama_set_adapters_lora": [c.c_void_p, c.POINTER(c.c_void_p), c.c_size_t, c.POINTER(c.c_float)],
    "llama_vocab_n_tokens": [c.c_void_p],
    "llama_n_ctx": [c.c_void_p],
    "llama_n_threads": [c.c_void_p],
    "llama_n_threads_batch": [c.c_void_p],
    "llama_process": [c.c_void_p, c.c_int, c.c_void_p],
    "llama_batch_ext_add_token": [c.c_void_p, c.c_int32, c.c_int32],
}
_TRUTHS: dict[str, list[Any]] = {
    "llama_memory_seq_rm": [c.c_void_p, c.c_int32, c.c_int32, c.c_int32],
    "llama_batch_ext_set_pos": [c.c_void_p, c.c_int32, c.POINTER(c.c_int32)],
    "llama_batch_ext_set_output_logits": [c.c_void_p, c.c_int32, c.c_bool],
}
_NOTHING: dict[str, list[Any]] = {"llama_batch_ext_clear": [c.c_void_p], "llama_memory_clear": [c.c_void_p, c.c_bool]}
_SIGNATURES = ((c.c_void_p, _POINTERS), (c.c_int32, _NUMBERS), (c.c_bool, _TRUTHS), (None, _NOTHING))


def open_library() -> Any:
    """Raises RuntimeError for a build of xllamacpp that keeps these functions to itself or has other structures."""
    spec = importlib.util.find_spec("xllamacpp")
    folders = list(spec.submodule_search_locations or []) if spec else []
    files = sorted(file for folder in folders for file in Path(folder).glob("xllamacpp*.so"))
    if not files:
        raise RuntimeError("this build of xllamacpp has no library that can be opened; measure on Linux or macOS")
    library = c.CDLL(os.fspath(files[0]))
    try:
        for result, functions in _SIGNATURES:
            for name, arguments in functions.items():
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
        library.llama_get_logits_ith.restype = c.POINTER(c.c_float)
        library.llama_get_logits_ith.argtypes = [c.c_void_p, c.c_int32]
        library.llama_log_set(_log_errors, None)
    except AttributeError as error:
        raise RuntimeError(f"this version of xllamacpp lacks a function that is needed: {error}") from error
    return library


@c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)
def _log_errors(level: int, text: bytes, _: object) -> None:
    """Errors alone, marked as the log of llama.cpp's server marks them."""
    if level == _ERROR:
        sys.stderr.write(f"0.0 E {text.decode('utf-8', 'replace')}")


def _defaults(library: Any, name: str, kind: type[c.Structure], table: dict[str, tuple[Any, Any]]) -> Any:
    function = getattr(library, name)
    function.restype, function.argtypes = kind, []
    defaults = function()
    expected = {field: default for field, (_, default) in table.items() if default is not None}
    actual = {field: getattr(defaults, field) for field in expected}
    other = [f"{field} {value!r}" for field, value in actual.items() if value != expected[field]]
    if other:
        raise RuntimeError(f"this version of xllamacpp has other defaults than known here: {', '.join(other)}")
    return defaults


class LogitReader:
    """A GGUF file, with or without an adapter, that tells the logits after each token of given text. Computed exactly where
    there is a choice: float32 attention cache, no flash attention, on the processor. The process ends with it, so nothing
    is freed."""

    def __init__(self, model: str, adapter: str | None, context: int, threads: int) -> None:
        """``context``: tokens of the longest text. Raises RuntimeError for what llama.cpp cannot load."""
        self.library = open_library()
        self.context = self._context(self._model(model), context, threads)
        if adapter:
            self._apply(adapter)
        self.vocabulary: int = self.library.llama_vocab_n_tokens(self.library.llama_model_get_vocab(self.model))
        self.memory = self.library.llama_get_memory(self.context)
        self.batch = self.library.llama_batch_ext_init(self.context)
        self._known: list[int] = []

    def _model(self, path: str) -> Any:
        """Mapped into memory as it is, not rearranged for speed: the file may be larger than half of the memory."""
        parameters = _defaults(self.library, "llama_model_default_params", _ModelParameters, _MODEL)
        parameters.n_gpu_layers = 0
        parameters.use_extra_bufts = False
        self.model = self.library.llama_model_load_from_file(os.fsencode(path), parameters)
        if not self.model:
            raise RuntimeError("the model cannot be loaded")
        return self.model

    def _context(self, model: Any, tokens: int, threads: int) -> Any:
        parameters = _defaults(self.library, "llama_context_default_params", _ContextParameters, _CONTEXT)
        parameters.n_ctx, parameters.n_batch, parameters.n_ubatch = max(tokens, BATCH), BATCH, BATCH
        parameters.n_outputs_max_per_seq = 0
        parameters.n_threads = parameters.n_threads_batch = threads
        parameters.flash_attn_type = _NO_FLASH_ATTENTION
        parameters.type_k = parameters.type_v = _F32
        context = self.library.llama_init_from_model(model, parameters)
        if not context:
            raise RuntimeError(f"there is no room for a context of {tokens} tokens")
        thread_counts = (self.library.llama_n_threads(context), self.library.llama_n_threads_batch(context))
        if self.library.llama_n_ctx(context) < tokens or thread_counts != (threads, threads):
            raise RuntimeError("this version of xllamacpp reads the parameters of a context otherwise than known here")
        return context

    def _apply(self, path: str) -> None:
        adapter = self.library.llama_adapter_lora_init(self.model, os.fsencode(path))
        if not adapter:
            raise RuntimeError("the adapter cannot be loaded")
        if self.library.llama_set_adapters_lora(self.context, (c.c_void_p * 1)(adapter), 1, (c.c_float * 1)(1.0)):
            raise RuntimeError("the adapter cannot be applied to this model")

    def logits(self, tokens: Sequence[int], first: int) -> numpy.ndarray:
        """float32 (len(tokens) - first, vocabulary): what may come after each token from number ``first`` on. What the text
        before has in common with this one is not computed again."""
        rows = numpy.empty((len(tokens) - first, self.vocabulary), numpy.float32)
        for start in range(self._keep(tokens[:first]), len(tokens), BATCH):
            part = tokens[start : start + BATCH]
            self._compute(part, start, first)
            for number in range(max(first, start), start + len(part)):
                slot = number - start
                row = self.library.llama_get_logits_ith(self.context, slot)
                if not row:
                    raise RuntimeError(f"llama.cpp has no logits in slot {slot}")
                rows[number - first] = numpy.ctypeslib.as_array(row, (self.vocabulary,))
        self._known = list(tokens)
        return rows

    def _keep(self, tokens: Sequence[int]) -> int:
        """How many of the first tokens are in memory already; the others there are forgotten."""
        count = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self._known, tokens, strict=False)))
        self._known = []
        if count and self.library.llama_memory_seq_rm(self.memory, 0, count, -1):
            return count
        self.library.llama_memory_clear(self.memory, True)
        return 0

    def _compute(self, tokens: Sequence[int], start: int, first: int) -> None:
        self.library.llama_batch_ext_clear(self.batch)
        for number, token in enumerate(tokens, start):
            slot = self.library.llama_batch_ext_add_token(self.batch, 0, token)
            if slot < 0 or not self.library.llama_batch_ext_set_pos(self.batch, slot, c.c_int32(number)):
                raise RuntimeError(f"llama.cpp refuses the token {token} at position {number}")
            if number >= first and not self.library.llama_batch_ext_set_output_logits(self.batch, slot, True):
                raise RuntimeError(f"llama.cpp gives no logits at position {number}")
        if status := self.library.llama_process(self.context, _DECODE, self.batch):
            raise RuntimeError(f"llama.cpp could not compute {len(tokens)} tokens (status {status})")


def log_prob(reader: LogitReader, prompt: Sequence[int], answer: Sequence[int]) -> float:
    """Sum over the answer's tokens of the natural log of their probability, after what is before each."""
    if not answer:
        return 0.0
    rows = reader.logits([*prompt, *answer[:-1]], len(prompt) - 1).astype(numpy.float64)
    highest = rows.max(axis=1)
    normalizers = highest + numpy.log(numpy.exp(rows - highest[:, None]).sum(axis=1))
    return float((rows[numpy.arange(len(answer)), answer] - normalizers).sum())
