"""How data comes in: feedback events, captured answers, foreign files.

Imports: base, config, data_formatter, environments, models; Django."""

# ruff: noqa: F401  for others to import from here
from rl.collect.capture import ExecutionTrace, TraceCollector, hook_into_agent
