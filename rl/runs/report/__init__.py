"""Charts of a run, and trackers that are told of it.

Imports: base; torch.
"""
