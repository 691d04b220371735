"""Other systems whose users come here: one folder each, with everything that is about that system and nothing else: readers
of its files, its addresses, its Python names, its formulas and its defaults. Nothing below knows of them: the app makes
their formats known at its start, and their addresses stand in ``backend/urls.py``.

Imports: base; Django."""

from typing import Any

FORMATS: dict[str, str] = {
    "command_center_gallery": "rl.from_systems.command_center.gallery_file",
    "n3": "rl.from_systems.n3.feedback_file",
    "ocd_decision": "rl.from_systems.ocd.records",
    "toolbox_trace": "rl.from_systems.toolbox.trace_file",
    "toolbox_checkpoint": "rl.from_systems.toolbox.checkpoint_file",
}
"""Name of a file format to the module that reads it, as ``rl.collect.importers`` wants it."""

AGENT_DEFAULTS: dict[str, dict[str, Any]] = {
    "command_center": {
        "pair_type": "both",
        "prompt_template": "command_center",
        "answer_template": "command_center",
        "context_length": 2048,
        "response_length": 512,
        "export_quantization": "q4_k_m",
    },
}
"""Name of a file format to fields of an agent that comes with it, as ``rl.collect.importers.newcomers`` wants it."""

PROMPT_TEMPLATES: dict[str, str] = {"command_center": "rl.from_systems.command_center.wording.PROMPTS"}
ANSWER_TEMPLATES: dict[str, str] = {"command_center": "rl.from_systems.command_center.wording.ANSWERS"}
"""Name of a template to its dotted path, as ``rl.data_formatter.wording`` wants it."""

DECISION_PROMPTS: dict[str, str] = {
    "FILER": "rl.from_systems.ocd.prompts.ask_filer",
    "PRIORITIZER": "rl.from_systems.ocd.prompts.ask_prioritizer",
}
"""Type of agent to how it is asked for a decision, as ``rl.data_formatter.wording`` wants it."""

DRAWINGS: dict[str, str] = {"command_center": "rl.from_systems.command_center.drawing.draw"}
TAGS: dict[str, str] = {"command_center": "rl.from_systems.command_center.drawing.TAGS"}
"""Source of traces to how they are drawn for raters, and to the tags that are offered; see ``rl.web.rating_filters``."""

RATING_FILTERS: dict[str, str] = {"command_center": "rl.from_systems.command_center.drawing.FILTERS"}
"""Source of traces to the filters of the rating page, as ``rl.web.rating_filters`` wants them."""

ROW_FORMATS: dict[str, str] = {
    "decision": "rl.from_systems.ocd.rows.DecisionRows",
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

GRADERS: dict[str, str] = {"openai": "rl.from_systems.openai_tuning.graders.GraderScorer"}
"""Form of graders to the scorer that is made from one's JSON, as ``rl.scoring.rollouts`` wants it."""

LENGTHS: dict[str, tuple[int, int]] = {"FILER": (512 + 128, 128), "PRIORITIZER": (1024 + 256, 256)}
"""Type of agent to the tokens of prompt and answer, and of an answer, as ``rl.config.lengths`` wants them."""

DECIDING_FIELDS: dict[str, str] = {
    "FILER": "swimlane",
    "LIBRARIAN": "findings",
    "PRIORITIZER": "recommended_item_id",
    "STORER": "integrationDecision",
}
"""Type of agent to the field of its answers that decides, as ``rl.evaluation`` wants it."""
