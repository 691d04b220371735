"""Other systems whose users come here: one folder each, with everything that is about that system and nothing else: readers
of its files, its addresses, its Python names, its formulas and its defaults. Nothing below knows of them: the app makes
their formats known at its start, and their addresses stand in ``backend/urls.py``.

Imports: nothing.
"""

from __future__ import annotations

FORMATS: dict[str, str] = {
    "command_center_gallery": "rl.from_systems.command_center.gallery_file",
    "n3": "rl.from_systems.n3.feedback_file",
}
"""Name of a file format to the module that reads it, as ``rl.collect.importers`` wants it."""
