"""The base models that come with Ratchet, by name. ``rl.lm.base_models`` makes them."""

from collections.abc import Mapping
from typing import Final

SMOLLM2, TINY = "smollm2", "tiny"
EMBEDDED_MODELS: Final[Mapping[str, str]] = {
    SMOLLM2: "SmolLM2-135M-Instruct, fetched once (93 MB)",
    TINY: "a toy model with random weights, built here",
}
"""Name to what a person reads of it."""
