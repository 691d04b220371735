"""A program that somebody else wrote: the OpenAI SDK traced by Traceloop, and a check of one answer."""

from openai import OpenAI
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
OpenAIInstrumentor().instrument()

client = OpenAI()
tools = [{"type": "function", "function": {"name": "track", "parameters": {"type": "object", "properties": {}}}}]
rules = {"role": "system", "content": "Be kind."}

plain = client.chat.completions.create(model="tiny", messages=[rules, {"role": "user", "content": "Good morning?"}])
asked = [{"role": "user", "content": "Where is 4711?"}]
first = client.chat.completions.create(model="tiny", messages=asked, tools=tools).choices[0].message
asked += [first.model_dump(exclude_none=True)]
asked += [{"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "in Bonn"}]
client.chat.completions.create(model="tiny", messages=asked, tools=tools)
for _ in client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Stream."}], stream=True):
    pass

check = {
    "gen_ai.evaluation.name": "Politeness",
    "gen_ai.evaluation.score.value": 0.75,
    "gen_ai.response.id": plain.id,
}
trace.get_tracer("checks").start_span("gen_ai.evaluation.result", attributes=check).end()
provider.shutdown()
