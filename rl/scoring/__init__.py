"""Rewards of stored answers, and of answers that a run has just generated.

Imports: auto_labels, base, collect, config, data_formatter, models, rewards, versions; Django."""
