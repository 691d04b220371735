"""Command Center: a page that rates dashboard widgets, thumbs on answers of its production system, its prompts and answers,
and the Python names that its users call, over what Ratchet has.

Names are imported when they are asked for.

Imports: base, collect, config, data_formatter, dataset_builder, export, models, online_learner, runs, serving, web; Django.
"""

from functools import partial
from typing import Final

from rl.base.leaves import lazy_name

_MODULES: Final = {
    "wording": ("build_combined_dpo_pairs", "build_fixture_dpo_pairs", "build_widget_dpo_pairs", "get_all_scenarios"),
    "trainer": ("CommandCenterDPOTrainer", "export_to_ollama", "get_fixture_descriptions", "prepare_training_dataset"),
    "learner": ("get_online_learner", "init_online_learner", "shutdown_online_learner"),
}
NAMES: Final = {
    **{name: f"{__name__}.{module}.{name}" for module, names in _MODULES.items() for name in names},
    **{name: f"rl.data_formatter.{name}" for name in ("DPOPair", "load_pairs_from_jsonl", "pairs_to_jsonl")},
}
"""Name to dotted path."""
__getattr__ = partial(lazy_name, __name__, paths=NAMES)
