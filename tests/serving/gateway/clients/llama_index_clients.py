"""Asks AGENT of the gateway at ADDRESS with the key KEY by LlamaIndex; prints what came of each call as a line of JSON."""

import json
import sys
from importlib.metadata import version

from llama_index.core.llms import ChatMessage
from llama_index.llms.openai import OpenAIResponses
from llama_index.llms.openai_like import OpenAILike

address, key, model = sys.argv[1:4]
served = {"model": model, "api_base": f"{address}/v1", "api_key": key}
like = OpenAILike(**served, is_chat_model=True)
responses = OpenAIResponses(**served, context_window=4096)  # it knows that of OpenAI's own models alone
CALLS = {
    "`OpenAILike`": lambda messages: like.chat(messages),
    "`OpenAILike`, stream": lambda messages: list(like.stream_chat(messages))[-1],
    "`OpenAIResponses`": lambda messages: responses.chat(messages),
}

for call, ask in CALLS.items():
    question = f"hello # LlamaIndex {call}"
    found = {"client": "LlamaIndex", "version": version("llama-index-core"), "call": call, "by": "`raw.id`"}
    found["question"] = question
    try:
        answer = ask([ChatMessage(role="user", content=question)])
        found["id"], found["answer"] = answer.raw.id, answer.message.content
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))
