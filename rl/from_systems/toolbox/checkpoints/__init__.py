"""Reads the checkpoints of ToolBoxV2's agents. They are pickles, which are programs, and are never executed.

Imports: base, collect."""
