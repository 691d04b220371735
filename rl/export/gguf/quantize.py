"""Turns float32 rows into the bytes of a GGUF type.

The plain types come from the ``gguf`` package. The others come from ggml's own ``ggml_quantize_chunk``, called through
ctypes in a library that llama-cpp-python or xllamacpp ships: no compiler, and the same bytes as ``llama-quantize``. It is
a pure function on buffers; no llama.cpp model is ever loaded here."""

import ctypes
import importlib.util
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from rl.base.errors import ExportFailed
from rl.export.gguf.weights import Array

_PLAIN = (Type.F32, Type.F16, Type.BF16, Type.Q8_0)
_LIBRARIES = {"llama_cpp": "lib/*ggml-base*", "xllamacpp": "xllamacpp*"}
"""Where each package has the routines, in the order in which they are looked for."""
_BINARY = (".so", ".dylib", ".dll", ".pyd")
_HOW_TO_INSTALL = "install it with: pip install xllamacpp"


def quantize(values: Array, kind: Type) -> NDArray[Any]:
    """The tensor in the bytes of ``kind``. Raises ExportFailed when a weight is beyond the range of float16."""
    if kind in _PLAIN:
        with np.errstate(over="ignore"):
            packed: NDArray[Any] = gguf.quants.quantize(values, kind)
        if kind is Type.F16 and not np.isfinite(packed).all():
            raise ExportFailed("a weight is beyond the range of float16: export bf16 or f32 instead")
        return packed
    return _quantize_rows(values, kind)


@dataclass(frozen=True, slots=True)
class KQuants:
    package: str
    """The Python package that the routines are from."""
    library: ctypes.CDLL


@cache
def k_quant_library() -> KQuants:
    """Raises ExportFailed, saying what to install, when the k-quant routines are not to be had."""
    package, path = _find()
    library = _load(package, path)
    try:
        library.ggml_quantize_init.argtypes = [ctypes.c_int]
        library.ggml_quantize_init.restype = None
        chunk = library.ggml_quantize_chunk
    except AttributeError:
        raise ExportFailed(
            f"this build of {package} does not offer k-quants (on Windows none does); use q8_0"
        ) from None
    chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_void_p]
    chunk.restype = ctypes.c_size_t
    return KQuants(package, library)


def _find() -> tuple[str, Path]:
    """llama-cpp-python ships llama.cpp's own libraries; xllamacpp has everything in its extension."""
    for package, pattern in _LIBRARIES.items():
        spec = importlib.util.find_spec(package)
        for folder in spec.submodule_search_locations or () if spec else ():
            if libraries := [path for path in sorted(Path(folder).glob(pattern)) if path.suffix in _BINARY]:
                return package, libraries[0]
    if importlib.util.find_spec("xllamacpp"):
        raise ExportFailed(f"the package xllamacpp has no compiled extension; re{_HOW_TO_INSTALL}")
    raise ExportFailed(f"levels below q8_0 need llama-quantize or the package xllamacpp; {_HOW_TO_INSTALL}")


def _load(package: str, path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        hint = "install the system package libgomp1" if "libgomp" in str(error) else f"re{_HOW_TO_INSTALL}"
        raise ExportFailed(f"cannot load {package}: {error}; {hint}") from error


def _quantize_rows(values: Array, kind: Type) -> NDArray[np.uint8]:
    """Shares the rows out over threads: ctypes lets go of Python's lock during the call."""
    library = k_quant_library().library
    library.ggml_quantize_init(kind)
    source = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, values.shape[-1])
    rows, width = source.shape
    packed = np.empty((rows, gguf.quant_shape_to_byte_shape(source.shape, kind)[-1]), dtype=np.uint8)

    def quantize_part(bounds: tuple[int, int]) -> int:
        first, last = bounds
        buffers = source.ctypes.data, packed.ctypes.data
        return int(library.ggml_quantize_chunk(kind, *buffers, first * width, last - first, width, None))

    edges = np.linspace(0, rows, min(torch.get_num_threads(), rows) + 1, dtype=int).tolist()
    with ThreadPoolExecutor(len(edges) - 1) as pool:
        written = sum(pool.map(quantize_part, zip(edges[:-1], edges[1:], strict=True)))
    if written != packed.nbytes:
        raise ExportFailed(f"quantising to {kind.name} wrote {written} bytes instead of {packed.nbytes}")
    return packed.reshape(*values.shape[:-1], -1)
