"""Runs the models that are measured.

Imports: base, config, environments, lm, training; torch.
"""
