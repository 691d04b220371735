"""Traces with labels that follow from their words."""

from rl.collect.feedback.write import compare, correct, rate
from rl.models import Agent, Trace
from tests.conftest import make_trace

GOOD, BAD = "It left our warehouse and arrives on day {}.", "Sorry, I cannot help with number {}."


def make_labelled(agent: Agent, count: int, *, start: int = 0, label: bool = True) -> list[Trace]:
    """Every second one is good; each has a question of its own."""
    traces = []
    for number in range(start, start + count):
        good = number % 2 == 0
        trace = make_trace(agent, f"Where is parcel {number}?", (GOOD if good else BAD).format(number))
        if label:
            rate(trace, rater="user:alice", scale="thumb", value=int(good), source="test")
        traces.append(trace)
    return traces


def make_preferences(agent: Agent, count: int) -> None:
    """Half side-by-side picks, half edited answers."""
    for number in range(count):
        question, good, bad = f"And where is letter {number}?", GOOD.format(number), BAD.format(number)
        worse = make_trace(agent, question, bad)
        if number % 2:
            correct(worse, text=good, rater="user:alice", source="test")
        else:
            compare(worse, make_trace(agent, question, good), choice="right", rater="user:alice", source="test")
