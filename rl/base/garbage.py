"""The garbage collector, and when it has nothing to find."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def not_collected() -> Iterator[None]:
    """Nothing is looked for inside. For imports: what they make stays, and while the training libraries are imported, the
    collector would go through half a million such objects again and again.

    Where torch came inside, it never goes through what is there now: no model of an earlier training is among it.
    """
    was_on, had_torch = gc.isenabled(), "torch" in sys.modules
    gc.disable()
    try:
        yield
    finally:
        if not had_torch and "torch" in sys.modules:
            gc.freeze()
        if was_on:
            gc.enable()
