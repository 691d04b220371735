"""Rows of a forward pass that begin alike are computed once, as one tree of tokens.

Imports: base; torch."""
