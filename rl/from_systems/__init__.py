"""Other systems whose users come here: one folder each, with everything that is about that system and nothing else: readers
of its files, its addresses, its Python names, its formulas and its defaults. Nothing below knows of them: the app makes
their formats known at its start, and their addresses stand in ``backend/urls.py``.

Imports: nothing.
"""

from __future__ import annotations

FORMATS: dict[str, str] = {
    "command_center_gallery": "rl.from_systems.command_center.gallery_file",
    "n3": "rl.from_systems.n3.feedback_file",
    "ocd_decision": "rl.from_systems.ocd.decision_file",
    "toolbox_trace": "rl.from_systems.toolbox.trace_file",
    "toolbox_checkpoint": "rl.from_systems.toolbox.checkpoint_file",
}
"""Name of a file format to the module that reads it, as ``rl.collect.importers`` wants it."""

ROW_FORMATS: dict[str, str] = {
    "decision": "rl.from_systems.ocd.exported_rows.Decision",
    "toolbox_kto": "rl.from_systems.toolbox.kto_rows.KTOText",
}
"""Name of a form of exported rows to its class, as ``rl.dataset_builder.exporting`` wants it."""

DECISION_FORMULAS: dict[str, str] = {
    "FILER": "rl.from_systems.ocd.formulas.filer",
    "LIBRARIAN": "rl.from_systems.ocd.formulas.librarian",
    "PRIORITIZER": "rl.from_systems.ocd.formulas.prioritizer",
    "STORER": "rl.from_systems.ocd.formulas.storer",
    "RETRIEVER": "rl.from_systems.ocd.formulas.retriever",
    "": "rl.from_systems.ocd.formulas.other",
}
"""Type of agent to the formula of its rewards, as ``rl.rewards.decision`` wants it; the last one is for all other types."""
