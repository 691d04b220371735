"""A program that somebody else wrote: traced by Langfuse's SDK, whose address and keys alone were changed."""

from langfuse import get_client, observe, propagate_attributes
from langfuse.openai import OpenAI

langfuse = get_client()
assert langfuse.auth_check()
client = OpenAI()
tools = [{"type": "function", "function": {"name": "track", "parameters": {"type": "object", "properties": {}}}}]
rules = {"role": "system", "content": "Be kind."}


@observe(as_type="tool")
def track(number: str) -> str:
    return f"{number} is in Bonn"


@observe
def answer(question: str) -> str:
    with propagate_attributes(session_id="talk-9"):
        asked = [{"role": "user", "content": question}]
        said = client.chat.completions.create(model="tiny", messages=asked, tools=tools).choices[0].message
        asked += [said.model_dump(exclude_none=True)]
        asked += [{"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": track(number="4711")}]
        said = client.chat.completions.create(model="tiny", messages=asked, tools=tools).choices[0].message
        langfuse.score_current_trace(name="user-feedback", value=1, data_type="BOOLEAN", comment="nice")
        return said.content


client.chat.completions.create(model="tiny", messages=[rules, {"role": "user", "content": "Good morning?"}])
answer("Where is 4711?")
for _ in client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Stream."}], stream=True):
    pass
with langfuse.start_as_current_observation(as_type="generation", name="own", model="tiny", input="By hand?") as own:
    own.update(output="Yes.")
    own.score(name="thumbs", value=0, data_type="BOOLEAN")
langfuse.flush()
langfuse.shutdown()
