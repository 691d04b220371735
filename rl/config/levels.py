"""The GGUF quantisation levels on offer, from the most exact to the smallest."""

from rl.base.names import require_known

PLAIN_LEVELS: tuple[str, ...] = ("f32", "bf16", "f16", "q8_0")
"""Need the ``gguf`` package only."""
SMALL_LEVELS: tuple[str, ...] = (
    *("q6_k", "q5_k_m", "q5_k_s", "q5_0", "q4_k_m", "q4_k_s", "q4_0", "q3_k_l", "q3_k_m", "q3_k_s", "q2_k"),
)
"""Need the quantisation routines that ship in ``xllamacpp``."""
LEVELS: tuple[str, ...] = PLAIN_LEVELS + SMALL_LEVELS


def check_level(name: str) -> str:
    """The level in lower case. Raises UsageError that lists the known ones."""
    level = name.strip().lower()
    require_known("quantization", level, LEVELS)
    return level
