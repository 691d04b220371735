"""A language model in memory: loading it, its chat format and tokens, log-probabilities, answers, checkpoints.

Imports: base, config, data_formatter, demo, hardware; Django, torch."""
