"""A program that somebody else wrote: the OpenAI SDK traced by OpenInference, which sends each call when it has ended."""

from openai import OpenAI, OpenAIError
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
OpenAIInstrumentor().instrument(tracer_provider=provider)

client = OpenAI(max_retries=0)
tools = [{"type": "function", "function": {"name": "track", "parameters": {"type": "object", "properties": {}}}}]


def ask(question: str, **options: object) -> None:
    client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": question}], **options)


def stream(question: str) -> None:
    messages = [{"role": "user", "content": question}]
    try:
        for _ in client.chat.completions.create(model="tiny", messages=messages, stream=True):
            pass
    except OpenAIError:
        pass


def loop(question: str) -> None:
    asked = [{"role": "user", "content": question}]
    said = client.chat.completions.create(model="tiny", messages=asked, tools=tools).choices[0].message
    asked += [said.model_dump(exclude_none=True)]
    if said.function_call:
        asked += [{"role": "function", "name": said.function_call.name, "content": "in Bonn"}]
    for call in said.tool_calls or ():
        asked += [{"role": "tool", "tool_call_id": call.id, "content": "in Bonn"}]
    client.chat.completions.create(model="tiny", messages=asked, tools=tools)


ask("Plain.")
ask("Think.")
loop("Call.")
loop("Call as of old.")
for question in ("Stream.", "Think and stream.", "Break.", "Break with an error."):
    stream(question)
provider.shutdown()
