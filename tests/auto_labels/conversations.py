"""Conversations whose next messages follow from how good the answer was."""

from rl.collect.feedback.write import rate
from rl.models import Agent, Trace
from tests.conftest import make_trace

THANKS, AGAIN = "Thank you, that helps.", "No, that is wrong: I asked about parcel {}."


def go_on(agent: Agent, earlier: Trace, message: str, **fields) -> Trace:
    """The next answer of the same conversation, as an app sends it."""
    answer = {"role": "assistant", "content": earlier.response}
    prompt = [*earlier.prompt, answer, {"role": "user", "content": message}]
    usual = {"session_id": earlier.session_id, "unit": earlier.unit, "response": "You are welcome."}
    return Trace.objects.create(agent=agent, prompt=prompt, **usual | fields)


def make_conversations(agent: Agent, count: int, *, start: int = 0, label: bool = True) -> list[Trace]:
    """The first answers; every second one was good, which their words do not tell."""
    traces = []
    for number in range(start, start + count):
        trace = make_trace(agent, f"Where is parcel {number}?", f"Parcel {number} is on its way.")
        go_on(agent, trace, AGAIN.format(number) if number % 2 else THANKS)
        if label:
            rate(trace, rater="user:alice", scale="thumb", value=1 - number % 2, source="test")
        traces.append(trace)
    return traces
