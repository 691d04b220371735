"""OpenTelemetry spans as answers, tool calls and feedback. Knows the dialects that instrumentations speak: OpenTelemetry's
own ``gen_ai.*``, which Traceloop speaks too, OpenInference's ``llm.*``, ``ai.*`` of Vercel's AI SDK, and Langfuse's.

Imports: base.
"""

# ruff: noqa: F401  for others to import from here
from rl.collect.otlp.mapping import NO_CONTENT, FoundAnswer, LooseSpan, Mapped, map_spans, slug
from rl.collect.otlp.wire import JSON, PROTOBUF, decode
