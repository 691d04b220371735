"""What an operator does: backups, a look at the installation, retention.

Imports: base, config, environments, lm, models; Django."""
