"""Runs the models that are measured.

Imports: base, config, environments, judge, lm, training; torch."""
