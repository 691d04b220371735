"""From rated answers to preference pairs: pure functions over records, no database and no machine-learning package.

- ``build_widget_dpo_pairs``: which widgets suit a question
- ``build_fixture_dpo_pairs``: how to draw a widget
- ``build_preference_pairs``: any other rated answers, side-by-side picks and edited answers
- ``pairs_to_jsonl``, ``load_pairs_from_jsonl``: the pairs as a file
- ``training_row``: a pair as a trainer reads it; ``read_training_rows``: a file of rows for any method

Imports: base, config."""

# ruff: noqa: F401  for others to import from here
from rl.base.records import PreferencePair as DPOPair
from rl.data_formatter.jsonl import load_pairs_from_jsonl, pairs_to_jsonl, read_training_rows, training_row
from rl.data_formatter.preference import build_preference_pairs
from rl.data_formatter.widgets import build_fixture_dpo_pairs, build_widget_dpo_pairs
