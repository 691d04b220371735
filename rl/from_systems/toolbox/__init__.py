"""ToolBoxV2: traces and checkpoints of its agents, and the Python names that its users call.

Imports: base, collect.
"""
