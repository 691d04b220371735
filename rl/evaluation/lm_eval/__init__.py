"""Tasks of lm-evaluation-harness.

Imports: base, lm; Django.
"""
