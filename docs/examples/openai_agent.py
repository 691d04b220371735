"""A till on OpenAI's client: it adds up what somebody buys. Nothing in it knows of a training."""

import json
import sys

from openai import OpenAI

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
    },
}


def add(arguments: str) -> str:
    try:
        numbers = json.loads(arguments)
        return f"{numbers['a'] + numbers['b']:g}"
    except (ValueError, KeyError, TypeError) as error:
        return f"error: {error!r}"


def answer(question: str) -> str:
    client = OpenAI()  # reads OPENAI_BASE_URL and OPENAI_API_KEY
    messages = [{"role": "system", "content": "Add up with the tool. Answer with the sum."}]
    messages.append({"role": "user", "content": question})
    for _ in range(6):
        reply = client.chat.completions.create(model="till", messages=messages, tools=[ADD]).choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        for call in reply.tool_calls or ():
            messages.append({"role": "tool", "tool_call_id": call.id, "content": add(call.function.arguments)})
        if not reply.tool_calls:
            return reply.content or ""
    return ""


if __name__ == "__main__":
    print(answer(json.load(sys.stdin)["prompt"]))
