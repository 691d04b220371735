"""What an operator does: backups, a look at the installation, retention.

Imports: base, environments, lm, models; Django.
"""
