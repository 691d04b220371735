"""Intervals and tests.

Imports: base."""
