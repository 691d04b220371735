"""Puts the simulated support chat into the database, once."""

from __future__ import annotations

from django.db import transaction

from rl.base.records import Message
from rl.config.embedded_models import TINY
from rl.demo.support import DEMO_TRAINING, DemoQuestion, demo_answers
from rl.models import Agent, Feedback, Trace, prompt_key

AGENT = "support-chat"
SOURCE = "simulation"


def load_demo(seed: int = 0) -> Agent:
    """The demo's agent, with all its traces and simulated ratings; changes nothing when they are there already."""
    with transaction.atomic():
        agent, created = Agent.objects.get_or_create(
            name=AGENT,
            defaults={
                "base_model": TINY,
                "description": "A simulated support chat. Its questions, answers and raters were made up by Ratchet.",
                "training_overrides": DEMO_TRAINING,
                "response_length": 48,
            },
        )
        if created:
            _load(agent, demo_answers(seed))
    return agent


def _load(agent: Agent, questions: list[DemoQuestion]) -> None:
    traces, feedback = [], []
    for number, question in enumerate(questions, start=1):
        prompt: list[Message] = [{"role": "user", "content": question.question}]
        for letter, answer in zip("ab", question.answers, strict=True):
            trace = Trace(
                agent=agent,
                external_id=f"demo-{number:03}-{letter}",
                source=SOURCE,
                prompt=prompt,
                prompt_key=prompt_key(prompt),
                response=answer.text,
            )
            traces.append(trace)
            feedback += [_rating(agent, trace, rating.rater, rating.up) for rating in answer.ratings]
    Trace.objects.bulk_create(traces)
    Feedback.objects.bulk_create(feedback)


def _rating(agent: Agent, trace: Trace, rater: str, up: bool) -> Feedback:
    return Feedback(
        agent=agent,
        trace=trace,
        kind=Feedback.Kind.RATING,
        rater=rater,
        source=SOURCE,
        scale=Feedback.Scale.THUMB,
        raw_value=float(up),
        value=float(up),
    )
