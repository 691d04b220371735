"""Names out of a registry: one sentence for those that nobody knows."""

import difflib
from collections.abc import Collection, Iterable

from rl.base.errors import UsageError


def require_known(what: str, name: str, known: Collection[str], others: str = "", section: str = "") -> None:
    """Raises UsageError with ``unknown_name``'s sentence where ``name`` is not among ``known``."""
    if name not in known:
        raise UsageError(unknown_name(what, name, known, others, section))


def unknown_name(what: str, name: object, known: Iterable[str], others: str = "", section: str = "") -> str:
    """``unknown preset 'smal_gpu' (did you mean small_gpu?); known: tiny, small_gpu``. ``others``: what else would do, in
    words. ``section``: of the file or the document, where the name stands; written before it."""
    known = list(known)
    listed = ", ".join([*known, others] if others else known) or "none"
    written = f"{section}.{name}" if section else str(name)
    return f"unknown {what} {written[:100]!r}{did_you_mean(name, known)}; known: {listed}"


def did_you_mean(name: object, known: Iterable[str], most: int = 1) -> str:
    """What to add to a sentence about an unknown name; empty where nothing known is like it, whatever the case."""
    written = {known_name.lower(): known_name for known_name in known}
    nearest = [written[lower] for lower in difflib.get_close_matches(str(name).lower(), written, n=most)]
    return f" (did you mean {' or '.join(nearest)}?)" if nearest else ""
