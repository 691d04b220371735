"""Recording what an agent does, from inside its process: the standard library alone, no Django, no torch.

Imports: base."""

# ruff: noqa: F401  for others to import from here
from rl.collect.capture.cleaning import Redact
from rl.collect.capture.collector import TraceCollector
from rl.collect.capture.execution_trace import ExecutionTrace, OpenTrace
from rl.collect.capture.hooking import Hook, hook_into_agent
