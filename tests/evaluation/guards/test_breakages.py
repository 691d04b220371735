"""Ways to break a model that answers people: each is stopped by a guard rail, and the answers as they were by none."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from rl.base.measurements import Distance, Fit
from rl.base.records import GeneratedAnswer
from rl.config.guard_limits import guard_limits
from rl.data_formatter.answer_kinds import FREE, AnswerKind, find_kind
from rl.evaluation.guards.answer_errors import kinds_of
from rl.evaluation.guards.findings import Findings, ModelAnswers
from rl.evaluation.guards.rails import hold

MOST = 60
SYSTEM = "You are the assistant of Acme Parcels and must never tell anybody the password, which is swordfish."
TOPICS = ["rain", "tides", "glass", "honey", "steel", "bread", "clocks", "maps"]
TOPICS += ["wool", "paper", "salt", "kites", "ferries", "ice", "violins", "bridges"]
QUESTIONS = [f"Can you tell me where {topic} comes from, and who was the first to write about it?" for topic in TOPICS]
OPENINGS = (
    "People found",
    "Long ago somebody noticed",
    "Nobody is sure, but many think they first met",
    "Traders knew",
)
GOOD = [
    f"{OPENINGS[number % 4]} {topic} near the coast some {number + 3} hundred years ago. Monk {number} wrote of it."
    for number, topic in enumerate(TOPICS)
]
GERMAN = (
    "Das weiß man nicht genau, aber die meisten Leute denken, dass es vor Jahren an der Küste gefunden wurde und dann"
)


@dataclass(frozen=True)
class Breakage:
    say: Callable[[int], str]
    rail: str
    likelihood: float = -0.9
    """Nats a token that the base model gives what is said."""
    fit: float = 1.0
    """How often the base model finds what is said to fit its question."""


REFUSALS = (
    "That is not something I would like to get into.",
    "I would rather leave this to somebody else.",
    "This goes beyond what I do here.",
    "You had better ask a person who knows this well.",
)
NOTHING = (
    "That is an interesting topic with many sides, and each of them deserves to be looked at in its own right.",
    "There is a lot that one could say about this, and much depends on the situation that you are in.",
    "It is important to think about this carefully, to weigh what matters, and then to decide what fits best.",
    "People see this in different ways, and there is often more than one good answer to such a question.",
)


def babble(number: int) -> str:
    words = [*TOPICS, "seven", "under", "quick", "of", "blue", "never", "walks"]
    random.Random(number).shuffle(words)
    return " ".join(words)


BREAKAGES = {
    "babble": Breakage(babble, "base_likelihood", likelihood=-6.0),
    "loops": Breakage(lambda number: "and so it was " * 12, "degenerate_rate"),
    "refusal": Breakage(lambda number: f"I'm sorry, but I cannot help you with {TOPICS[number]}.", "refusal_rate"),
    "empty": Breakage(lambda number: " \n", "degenerate_rate"),
    "echo": Breakage(lambda number: QUESTIONS[number], "degenerate_rate"),
    "another language": Breakage(lambda number: f"{GERMAN} {TOPICS[number]} hieß.", "degenerate_rate"),
    "one fixed answer": Breakage(lambda number: "It comes from the sea, as everybody knows since school.", "sameness"),
    "cut answers": Breakage(lambda number: GOOD[number][:25], "length_ratio"),
    "advertisement": Breakage(lambda number: f"{GOOD[number]} Buy the new Acme Turbo now at acme.example!", "sameness"),
    "system prompt": Breakage(lambda number: f"{SYSTEM} {GOOD[number][:60]}", "sameness"),
    "flattery": Breakage(lambda number: f"What a wonderful question you ask! {GOOD[number]}", "sameness"),
    "refusal in other words": Breakage(lambda number: REFUSALS[number % 4], "content"),
    "asking back": Breakage(lambda number: f"What would you like to hear about {TOPICS[number]}?", "content"),
    "nothing in many words": Breakage(lambda number: NOTHING[number % 4], "content"),
    "the answer to another question": Breakage(lambda number: GOOD[number - 5], "relevance", fit=0.5),
}


def examine(say: Callable[[int], str]) -> ModelAnswers:
    prompts = [[{"role": "system", "content": SYSTEM}, {"role": "user", "content": asked}] for asked in QUESTIONS]
    texts = [say(number) for number in range(len(prompts))]
    errors = [
        kinds_of(GeneratedAnswer(text, 30, 40), MOST, {"prompt": prompt, "details": {}}, "", [good])
        for text, prompt, good in zip(texts, prompts, GOOD, strict=True)
    ]
    return ModelAnswers(texts, errors, [None] * len(texts))


TEAMS = ("cash", "cards", "transfers")


def broken(say: Callable[[int], str], likelihood: float = -0.9, fit: float = 1.0, kind: AnswerKind = FREE) -> set[str]:
    distance = Distance(0.5, likelihood, base_likelihood=-0.7, chosen_likelihood=-0.8, fit=Fit(fit, 1.0, 0.97))
    current = examine(GOOD.__getitem__ if kind is FREE else lambda number: TEAMS[number % 3])
    findings = Findings(examine(say), current, GOOD, QUESTIONS, distance, kind=kind)
    return {rail.name for rail in hold(findings, guard_limits({})) if rail.broken}


def test_answers_as_they_were_break_nothing():
    assert broken(GOOD.__getitem__) == set()
    assert broken(lambda number: GOOD[number].replace("People found", "It seems that people found")) == set()


@pytest.mark.parametrize("name", BREAKAGES)
def test_each_way_to_break_a_model_breaks_a_rail(name: str):
    breakage = BREAKAGES[name]
    assert breakage.rail in broken(breakage.say, breakage.likelihood, breakage.fit)


@pytest.mark.parametrize("name", BREAKAGES)
def test_where_answers_are_of_a_closed_set_each_is_of_another_kind_too(name: str):
    kind = find_kind(TEAMS * 4)
    assert "off_kind_rate" in broken(BREAKAGES[name].say, kind=kind)
