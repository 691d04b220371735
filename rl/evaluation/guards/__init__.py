"""Guard rails: what a version must keep to, however well it ranks.

Imports: base, config, data_formatter, models, rewards."""
