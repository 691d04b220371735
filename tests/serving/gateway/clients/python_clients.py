"""Asks AGENT of the gateway at ADDRESS with the key KEY by each client; prints what came of each call as a line of JSON."""

import json
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_AGENTS_DISABLE_TRACING": "1"}  # no address but ours
import agents
import anthropic
import litellm
import openai
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

address, key, model = sys.argv[1:4]
v1 = f"{address}/v1"
openai_client = openai.OpenAI(base_url=v1, api_key=key)
anthropic_client = anthropic.Anthropic(base_url=address, api_key=key)
async_client = openai.AsyncOpenAI(base_url=v1, api_key=key)
SCHEMA = {"type": "object", "properties": {"number": {"type": "string"}}, "required": ["number"]}
TRACK = {"name": "track", "input_schema": SCHEMA}
Ask = Callable[[str], tuple[Any, Any]]


class Parcel(BaseModel):
    number: str


def said(question: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}]


def chat(question: str) -> tuple[Any, Any]:
    answer = openai_client.chat.completions.create(model=model, messages=said(question))
    return answer.id, answer.choices[0].message.content


def chat_stream(question: str) -> tuple[Any, Any]:
    pieces = list(openai_client.chat.completions.create(model=model, messages=said(question), stream=True))
    return pieces[0].id, "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)


def response(question: str) -> tuple[Any, Any]:
    answer = openai_client.responses.create(model=model, input=question)
    return answer.id, answer.output_text


def response_stream(question: str) -> tuple[Any, Any]:
    with openai_client.responses.stream(model=model, input=question) as stream:
        answer = stream.until_done().get_final_response()
    return answer.id, answer.output_text


def conversation(question: str) -> tuple[Any, Any]:
    name = openai_client.conversations.create().id
    openai_client.responses.create(model=model, input="I am Anna.", conversation=name)
    answer = openai_client.responses.create(model=model, input=question, conversation=name)
    return answer.id, answer.output_text


def completion(question: str) -> tuple[Any, Any]:
    answer = openai_client.completions.create(model=model, prompt=question)
    return answer.id, answer.choices[0].text


def message(question: str) -> tuple[Any, Any]:
    answer = anthropic_client.messages.create(model=model, max_tokens=20, messages=said(question))
    return answer.id, answer.content[0].text


def message_stream(question: str) -> tuple[Any, Any]:
    with anthropic_client.messages.stream(model=model, max_tokens=20, messages=said(question)) as stream:
        answer = stream.get_final_message()
    return answer.id, answer.content[-1].text


def message_tool(question: str) -> tuple[Any, Any]:
    answer = anthropic_client.messages.create(model=model, max_tokens=20, messages=said(question), tools=[TRACK])
    return answer.id, answer.content[-1].input


def langchain(chat_model: Any) -> Ask:
    def ask(question: str) -> tuple[Any, Any]:
        answer = chat_model.invoke(question)
        return answer.response_metadata["id"], answer.text

    return ask


def langchain_typed(question: str) -> tuple[Any, Any]:
    chat_model = ChatAnthropic(model=model, base_url=address, api_key=key)
    schema = {"title": "track", "description": "Tracks.", **SCHEMA}
    typed = chat_model.with_structured_output(schema, method="function_calling", include_raw=True)
    answer = typed.invoke(question)
    return answer["raw"].response_metadata["id"], answer["parsed"]


def agent(model_type: Any, *tools: Any) -> Ask:
    def ask(question: str) -> tuple[Any, Any]:
        chosen = model_type(model=model, openai_client=async_client)
        done = agents.Runner.run_sync(agents.Agent(name="Anna", model=chosen, tools=list(tools)), question)
        return done.last_response_id, done.final_output

    return ask


@agents.function_tool
def track(number: str) -> str:
    return "it left"


def pydantic(model_type: Any, provider: Any, output: Any = str) -> Ask:
    def ask(question: str) -> tuple[Any, Any]:
        done = Agent(model_type(model, provider=provider), output_type=output).run_sync(question)
        answer = done.output if output is str else done.output.model_dump(mode="json")
        in_words = isinstance(output, NativeOutput)
        return done.response.provider_response_id, json.dumps(answer) if in_words else answer

    return ask


def lite(name: str, base: str) -> Ask:
    def ask(question: str) -> tuple[Any, Any]:
        answer = litellm.completion(name, messages=said(question), api_base=base, api_key=key)
        return in_header(answer) if "anthropic" in name else answer.id, answer.choices[0].message.content

    return ask


def lite_response(question: str) -> tuple[Any, Any]:
    answer = litellm.responses(model=f"openai/{model}", input=question, api_base=v1, api_key=key)
    return in_header(answer), answer.output_text


def lite_text(question: str) -> tuple[Any, Any]:
    name = f"text-completion-openai/{model}"
    answer = litellm.text_completion(model=name, prompt=question, api_base=v1, api_key=key)
    return answer.id, answer.choices[0].text


def in_header(answer: Any) -> Any:
    return answer._hidden_params["additional_headers"].get("llm_provider-x-ratchet-trace")


at_openai, at_anthropic = OpenAIProvider(base_url=v1, api_key=key), AnthropicProvider(base_url=address, api_key=key)
langchain_openai = {"model": model, "base_url": v1, "api_key": key}
HELLO, TOOL, JSON = "hello", "call a tool", "answer in JSON"
HEADER = "the header `x-ratchet-trace` in `_hidden_params`"
METADATA = '`response_metadata["id"]`'
CALLS: dict[tuple[str, str], list[tuple[str, str, str, Ask]]] = {
    ("openai (Python)", "openai"): [
        ("`chat.completions.create`", "`id`", HELLO, chat),
        ("`chat.completions.create`, stream", "`id`", HELLO, chat_stream),
        ("`responses.create`", "`id`", HELLO, response),
        ("`responses.stream`", "`id`", HELLO, response_stream),
        ("`conversations.create`, two turns", "`id`", HELLO, conversation),
        ("`completions.create`", "`id`", HELLO, completion),
    ],
    ("anthropic (Python)", "anthropic"): [
        ("`messages.create`", "`id`", HELLO, message),
        ("`messages.stream`", "`id`", HELLO, message_stream),
        ("`messages.create`, a tool", "`id`", TOOL, message_tool),
    ],
    ("LangChain", "langchain-openai"): [
        ("`ChatOpenAI`", METADATA, HELLO, langchain(ChatOpenAI(**langchain_openai))),
        (
            "`ChatOpenAI(use_responses_api=True)`",
            METADATA,
            HELLO,
            langchain(ChatOpenAI(**langchain_openai, use_responses_api=True)),
        ),
    ],
    ("LangChain Anthropic", "langchain-anthropic"): [
        ("`ChatAnthropic`", METADATA, HELLO, langchain(ChatAnthropic(model=model, base_url=address, api_key=key))),
        ('`with_structured_output(method="function_calling")`', METADATA, TOOL, langchain_typed),
    ],
    ("Agents SDK of OpenAI", "openai-agents"): [
        ("`OpenAIResponsesModel`", "`last_response_id`", HELLO, agent(agents.OpenAIResponsesModel)),
        ("`OpenAIResponsesModel`, a tool", "`last_response_id`", TOOL, agent(agents.OpenAIResponsesModel, track)),
        ("`OpenAIChatCompletionsModel`", "`last_response_id`", HELLO, agent(agents.OpenAIChatCompletionsModel)),
    ],
    ("pydantic-ai", "pydantic-ai-slim"): [
        (f"`{name}`{what}", "`provider_response_id`", question, pydantic(kind, provider, output))
        for name, kind, provider in (
            ("OpenAIChatModel", OpenAIChatModel, at_openai),
            ("OpenAIResponsesModel", OpenAIResponsesModel, at_openai),
            ("AnthropicModel", AnthropicModel, at_anthropic),
        )
        for what, question, output in (
            ("", HELLO, str),
            (", `ToolOutput`", TOOL, ToolOutput(Parcel, name="track")),
            (", `NativeOutput`", JSON, NativeOutput(Parcel)),
        )
        if not (kind is AnthropicModel and question is JSON)  # it asks so of Anthropic's own models alone
    ],
    ("LiteLLM", "litellm"): [
        ('`completion("openai/…")`', "`id`", HELLO, lite(f"openai/{model}", v1)),
        ('`completion("anthropic/…")`', HEADER, HELLO, lite(f"anthropic/{model}", address)),
        ("`responses`", HEADER, HELLO, lite_response),
        ("`text_completion`", "`id`", HELLO, lite_text),
    ],
}

for (client, package), calls in CALLS.items():
    for call, by, order, ask in calls:
        question = f"{order} # {client} {call}"
        found = {"client": client, "version": version(package), "call": call, "by": by, "question": question}
        try:
            found["id"], found["answer"] = ask(question)
        except Exception as error:
            found["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(found))
