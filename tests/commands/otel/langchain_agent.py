"""A program that somebody else wrote: an agent of LangChain with one tool, traced by OpenInference."""

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.messages.utils import convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from openai import OpenAI
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


class Tiny(BaseChatModel):
    """The few lines of langchain-openai that are needed here."""

    @property
    def _llm_type(self) -> str:
        return "tiny"

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **more: Any
    ) -> ChatResult:
        sent = convert_to_openai_messages(messages)
        answer = OpenAI().chat.completions.create(model="tiny", messages=sent, **more).choices[0].message
        message = AIMessage(
            answer.content or "", additional_kwargs=answer.model_dump(include={"tool_calls"}, exclude_none=True)
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def track(number: str) -> str:
    """Where a parcel is."""
    return f"{number} is in Bonn"


def agent(question: str) -> str:
    model = Tiny().bind(tools=[convert_to_openai_tool(track)])
    messages = [SystemMessage("Be kind."), HumanMessage(question)]
    messages.append(model.invoke(messages))
    messages += [track.invoke(call) for call in messages[-1].tool_calls]
    return model.invoke(messages).content


provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
LangChainInstrumentor().instrument(tracer_provider=provider)
RunnableLambda(agent).invoke("Where is 4711?", config={"metadata": {"session_id": "talk-9"}})
provider.shutdown()
