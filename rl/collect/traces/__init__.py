"""Answers that come in: checked, and written."""
