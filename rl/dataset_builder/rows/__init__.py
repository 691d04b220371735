"""Rows of training sets, one kind a file."""
