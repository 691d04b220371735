"""Answers and feedback of all kinds that can be told apart, drawn by lot and the same every time, numbers included."""

import random
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.utils import timezone

from rl.models import Agent, Feedback, LabelModel, LabelProposal, Trace, prompt_key

PROMPTS, MOST_ANSWERS = 48, 5
RATERS = ("alice", "bob", "carol", "dave", "device:7", "")
ENDINGS = (
    "",
    " ",
    "\n",
    '"quoted" \\ back',
    "ünïcödé – “…”",
    "tab\tand\x1bcontrol",
    "\u2028line",
    "🙂 🧑‍🚀",
    "</s>\x7f",
)
SCALES = {"thumb": (0.0, 1.0), "stars": (0.0, 0.25, 0.5, 0.75, 1.0), "score": (0.1, 0.3, 0.5, 0.7, 0.9)}
WIDGETS = (("kpi", "kpi_live"), ("kpi", "kpi_alert"), ("trend", "trend_line"), ("trend", "trend_area"), ("alerts", ""))


def make_agent(name: str, **settings: Any) -> Agent:
    """``tools``: with runs that call tools; ``widgets``: with choices of widgets; any other name: with words alone."""
    agent = Agent.objects.create(pk=1, name=name, **settings)
    draw = random.Random(name)
    traces = list(_traces(agent, draw))
    Trace.objects.bulk_create(traces)
    events = [event for trace in traces for event in _events(agent, trace, traces, draw)]
    for number, event in enumerate(events, start=1):
        event.pk = number
    draw.shuffle(events)
    Feedback.objects.bulk_create(events)
    _propose(agent, traces, draw)
    return agent


def _traces(agent: Agent, draw: random.Random) -> Iterator[Trace]:
    for number in range(PROMPTS):
        prompt, key = _prompt(number, draw)
        for answer in range(draw.randint(1, MOST_ANSWERS * (1 + (agent.name == "widgets")))):
            response = f"a{number:02}{draw.choice((answer, 0))} {ENDINGS[(number + answer) % len(ENDINGS)]}"
            yield Trace(
                id=UUID(int=draw.getrandbits(128)),
                agent=agent,
                external_id=f"answer-{number}-{answer}" if draw.random() < 0.5 else None,
                prompt=prompt,
                prompt_key=key or prompt_key(prompt),
                response=draw.choice((*[response] * 11, f"{response} \n", "", " \t")),
                reward=draw.choice((None, None, 0.5, round(draw.random(), 3))),
                **_done(agent, draw),
            )


def _prompt(number: int, draw: random.Random) -> tuple[list[dict[str, Any]], str]:
    """Messages, and the key of an importer that gives one to prompts in other words, or two to the same words."""
    question = {"role": "user", "content": f"Question {number}? {draw.choice(ENDINGS)}"}
    before = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Yes?"}]
    prompt = [*draw.choice(([], [{"role": "system", "content": "Be – brief."}], before)), question]
    if number % 8 == 0:
        prompt = [{"role": "user", "content": "Asked twice?"}]
    return prompt, f"key{number // 6:02}" if number % 3 == 0 else f"own{number:02}" if number % 8 == 0 else ""


def _done(agent: Agent, draw: random.Random) -> dict[str, Any]:
    details: dict[str, Any] = draw.choice(
        ({}, {}, {}, {"model": "m"}, {"split": draw.choice(("never", "heldout", None))})
    )
    if agent.name == "widgets":
        scenario, fixture = draw.choice(WIDGETS)
        size = draw.choice(("hero", "compact", "odd"))
        return {"details": {**details, "scenario": scenario, "fixture": fixture, "size": size}}
    if agent.name != "tools" or draw.random() < 0.3:
        return {"details": details}
    call = {"tool_name": "look", "arguments": {"place": draw.choice("ab")}, "result": "Seen: ü", "success": True}
    if draw.random() < 0.1:
        call["arguments"] = '{"place": "cut'
    if draw.random() < 0.2:
        details = {**details, "tools": [{"type": "function", "function": {"name": "look", "parameters": {}}}]}
    return {"details": details, "tool_calls": [call] * draw.randint(1, 2)}


def _events(agent: Agent, trace: Trace, traces: list[Trace], draw: random.Random) -> Iterator[Feedback]:
    common = {"agent": agent, "trace": trace, "rated_at": timezone.now()}
    for rater in draw.sample(RATERS, draw.choice((0, 1, 1, 1, 2, 3, 4))):
        scale = draw.choice((*["thumb"] * 4, "stars", "score"))
        value = draw.choice(SCALES[scale])
        current = draw.random() < 0.95
        yield Feedback(
            **common, kind="rating", rater=rater, scale=scale, value=value, raw_value=value, is_current=current
        )
    same = [other for other in traces if other.prompt_key == trace.prompt_key and other is not trace]
    while same and draw.random() < 0.3:
        other, choice = draw.choice((*same, draw.choice(traces))), draw.choice(Feedback.Choice.values)
        yield Feedback(**common, kind="comparison", other_trace=other, choice=choice, rater=draw.choice(RATERS))
    if draw.random() < 0.1:
        text = draw.choice((f"Mended {trace.response} – ü", trace.response, ""))
        yield Feedback(**common, kind="correction", text=text, rater=draw.choice(RATERS))
    if draw.random() < 0.05:
        yield Feedback(**common, kind="outcome", metric="returned", raw_value=3, rater="shop")


def _propose(agent: Agent, traces: list[Trace], draw: random.Random) -> None:
    model = LabelModel.objects.create(
        agent=agent, labels=1, heldout_labels=1, heldout_accuracy=1, majority_share=0.5, calibration=[]
    )
    proposals = [
        LabelProposal(
            trace=trace, label_model=model, good=draw.random() < 0.5, confidence=round(draw.uniform(0.5, 1), 3)
        )
        for trace in draw.sample(traces, len(traces) // 3)
    ]
    LabelProposal.objects.bulk_create(proposals)
