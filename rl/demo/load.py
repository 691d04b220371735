"""Puts a demo's questions, answers and simulated ratings into the database, once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from rl.base.errors import UsageError
from rl.base.records import Message
from rl.config.embedded_models import SMOLLM2, TINY
from rl.demo.everyday import DemoOpinion, RatedQuestion, rated_questions
from rl.demo.support import DEMO_TRAINING, demo_answers
from rl.models import Agent, Feedback, Trace, prompt_key

SOURCE = "simulation"
MOST_TOKENS = 96
"""In an answer to an everyday question: room for a long one, so that it is seen when answers become short."""


@dataclass(frozen=True, slots=True)
class Demo:
    model: str
    """The base model that it is for."""
    settings: dict[str, Any]
    """Fields of the agent."""
    questions: Callable[[int], list[RatedQuestion]] | None = None
    """None: the model is asked and corrected while one looks on."""


def load_demo(model: str = SMOLLM2, seed: int = 0, name: str = "") -> Agent:
    """The demo's agent, with all its answers and simulated ratings; changes nothing when they are there already. ``name``:
    of DEMOS, empty: the model's own. Raises UsageError where the agent stands on another model."""
    name = name or next(own for own, demo in DEMOS.items() if demo.model == model)
    demo = DEMOS[name]
    with transaction.atomic():
        agent, created = Agent.objects.get_or_create(name=name, defaults={"base_model": model, **demo.settings})
        if created and demo.questions:
            _load(agent, demo.questions(seed))
    if agent.base_model != model:
        raise UsageError(f"the agent {name} stands on {agent.base_model}: go on with --model {agent.base_model}")
    return agent


def _load(agent: Agent, questions: list[RatedQuestion]) -> None:
    traces: list[Trace] = []
    feedback: list[Feedback] = []
    for number, question in enumerate(questions, start=1):
        prompt: list[Message] = [{"role": "user", "content": question.question}]
        of_question = [
            Trace(
                agent=agent,
                external_id=f"demo-{number:03}-{letter}",
                source=SOURCE,
                prompt=prompt,
                prompt_key=prompt_key(prompt),
                response=answer,
            )
            for letter, answer in zip("abcdefgh", question.answers, strict=False)
        ]
        traces += of_question
        feedback += [make_feedback(agent, of_question, opinion) for opinion in question.opinions]
    Trace.objects.bulk_create(traces)
    Feedback.objects.bulk_create(feedback)


def make_feedback(agent: Agent, answers: list[Trace], opinion: DemoOpinion) -> Feedback:
    common = {"agent": agent, "trace": answers[opinion.answer], "rater": opinion.rater, "source": SOURCE}
    if opinion.kind == "pick":
        other = answers[opinion.other]
        return Feedback(**common, kind=Feedback.Kind.COMPARISON, other_trace=other, choice=Feedback.Choice.LEFT)
    if opinion.kind == "edit":
        return Feedback(**common, kind=Feedback.Kind.CORRECTION, text=opinion.text)
    value = float(opinion.up)
    scale = Feedback.Scale.THUMB
    return Feedback(**common, kind=Feedback.Kind.RATING, scale=scale, raw_value=value, value=value)


DEMOS = {
    "mailroom": Demo(
        model=SMOLLM2,
        settings={
            "description": "Messages to an invented shop, sorted into six teams. The colleagues who correct are simulated.",
            "response_length": 8,
            "deploy_target": "llama_cpp",
            "auto_deploy": True,
        },
    ),
    "everyday": Demo(
        model=SMOLLM2,
        settings={
            "description": "Everyday questions. The model answered them; the raters are simulated and like short answers.",
            "response_length": MOST_TOKENS,
            "training_overrides": {"max_steps": 60},
            "min_samples_to_retrain": 20,
            "deploy_target": "llama_cpp",
            "auto_deploy": True,
        },
        questions=rated_questions,
    ),
    "support-chat": Demo(
        model=TINY,
        settings={
            "description": "A simulated support chat. Its questions, answers and raters were made up by Ratchet.",
            "training_overrides": DEMO_TRAINING,
            "guard_limits": dict.fromkeys(
                ("degenerate_rate", "sameness", "content", "relevance", "kl_to_base", "base_likelihood")
            ),
            "response_length": 48,
        },
        questions=demo_answers,
    ),
}
"""By the agent's name, the first one of a model is its own. The toy says nothing that makes sense before or after, so no
guard rail asks it."""
