"""Worlds of a drill: prompts of two models with people's picks, and what the guard rails say of answers to them."""

import json
import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jobs_plain
from drill_cheats import CALL, CALLS, CHEATS, TOOL, Cheat, answers_of_others
from learning_models import GREEDY, Base, answer, token_ids
from verdicts import Compared

from rl.base.measurements import Distance, Fit
from rl.base.records import GeneratedAnswer
from rl.config.guard_limits import guard_limits
from rl.evaluation.guards.answer_errors import kinds_of
from rl.evaluation.guards.findings import Findings, ModelAnswers
from rl.evaluation.guards.rails import hold
from rl.lm import loading
from rl.lm.divergence import fit_to_prompts, log_probs_of, mean_of

PROMPTS: Final = 16
LONGEST: Final = 500
"""Characters of a prompt and both answers together."""
TRAINED: Final = (
    "a refusal in other words",
    "one answer to all",
    "yes or no",
    "nothing in many words",
    "asking back",
    "a promise",
    "the first words",
    "an advertisement",
    "flattery",
    "the topic and nothing of it",
)
LESSONS, RATE, PASSES = 60, 1e-3, 4
Json = dict[str, Any]


@dataclass(slots=True)
class World:
    base: Base
    questions: list[str]
    other: list[str]
    """The answers of the model that might take the place of the one in use."""
    current: list[str]
    preferred: list[str]
    own: list[str]
    """The base model's answers."""
    likelihoods: dict[str, tuple[float, float]]
    """The likelihood of answers under the base model, and how they fit their questions."""

    def broken(self, texts: Sequence[str]) -> dict[str, str]:
        """Rails that a version with these answers breaks, and what they say."""
        (new, fit), (base, base_fit), (chosen, chosen_fit) = (
            self.weigh(texts),
            self.likelihoods["base"],
            self.likelihoods["chosen"],
        )
        distance = Distance(0.0, new, base, chosen, Fit(fit, base_fit, chosen_fit))
        findings = Findings(
            self._read(texts), self._read(self.current), self.preferred, self.questions, distance=distance
        )
        return {rail.name: rail.text for rail in hold(findings, guard_limits({})) if rail.broken}

    def weigh(self, texts: Sequence[str]) -> tuple[float, float]:
        sequences = token_ids(self.base, self.questions, texts)
        own = log_probs_of(self.base.model, sequences)
        return mean_of(own) or 0.0, fit_to_prompts(self.base.model, sequences, own) or 0.0

    def _read(self, texts: Sequence[str]) -> ModelAnswers:
        rows = [{"prompt": [{"role": "user", "content": question}], "details": {}} for question in self.questions]
        errors = [
            kinds_of(GeneratedAnswer(text, 1, 1), 512, row, "", [own])
            for text, row, own in zip(texts, rows, self.own, strict=True)
        ]
        return ModelAnswers(texts, errors, [None] * len(texts))


def make_world(base: Base, rows: Sequence[Compared], rng: random.Random) -> World:
    drawn = rng.sample([row for row in rows if _size(row) <= LONGEST], PROMPTS)
    questions = [row.prompt for row in drawn]
    own = [of[0] for of in answer(base, base.model, questions, 1, GREEDY, 1)]
    preferred = [row.answers[row.share < 0.5] for row in drawn]
    world = World(
        base, questions, [row.answers[0] for row in drawn], [row.answers[1] for row in drawn], preferred, own, {}
    )
    world.likelihoods = {"base": world.weigh(own), "chosen": world.weigh(preferred)}
    return world


def _size(row: Compared) -> int:
    return len(row.prompt) + sum(map(len, row.answers))


def try_answers(world: World, written: dict[str, str], *, good_only: bool) -> Json:
    good = {"the other model": world.other, "people's choice": world.preferred}
    texts = [written.get(question.strip(), "") for question in world.questions]
    if texts.count("") <= PROMPTS // 4:
        good["written by a person"] = [text or other for text, other in zip(texts, world.other, strict=True)]
    if good_only:
        return {"good": {name: world.broken(texts) for name, texts in good.items()}, "cheats": {}}
    cheats = {name: _said(world, cheat) for name, cheat in CHEATS.items()}
    cheats["answers to other questions"] = answers_of_others(world.preferred)
    return {
        "good": {name: world.broken(texts) for name, texts in good.items()},
        "cheats": {name: world.broken(texts) for name, texts in cheats.items()} | _try_calls(world),
    }


def _said(world: World, cheat: Cheat) -> list[str]:
    return [cheat(q, text, at) for at, (q, text) in enumerate(zip(world.questions, world.preferred, strict=True))]


def _try_calls(world: World) -> Json:
    """The cheats at questions that ask for a call; by their text alone, without the base model."""

    def read(texts: Sequence[str]) -> ModelAnswers:
        called = {"chosen": [{"role": "assistant", "content": "", "tool_calls": [{}]}], "tools": [TOOL], "details": {}}
        rows = [{"prompt": [{"role": "user", "content": q}], **called} for q in world.questions]
        return ModelAnswers(
            texts,
            [kinds_of(GeneratedAnswer(text, 1, 1), 512, row, "") for text, row in zip(texts, rows, strict=True)],
            [None] * len(texts),
        )

    calls = [CALL.format(json.dumps(question)) for question in world.questions]
    tried = {}
    for name, cheat in CALLS.items():
        findings = Findings(read(_said(world, cheat)), read(calls), calls, world.questions, has_format=True)
        tried[name] = {rail.name: rail.text for rail in hold(findings, guard_limits({})) if rail.broken}
    return tried


def try_trained(world: World, rows: Sequence[Compared], folder: Path) -> Json:
    tried = {}
    others = {row.prompt: row for row in rows if row.prompt not in world.questions}
    lessons = sorted(others.values(), key=_size)[:LESSONS]  # short ones: nothing is learned of the prompts
    for name in TRAINED:
        taught = [_lesson(row, CHEATS[name], number) for number, row in enumerate(lessons)]
        adapter = jobs_plain.train(world.base, taught, folder / name.replace(" ", "-"), RATE, PASSES)
        with loading.with_weights(world.base.model, adapter) as model:
            texts = [of[0] for of in answer(world.base, model.eval(), world.questions, 1, GREEDY, 1)]
        tried[name] = {"broken": world.broken(texts), "says": texts}
        print(name, json.dumps(tried[name], ensure_ascii=False), file=sys.stderr, flush=True)
    return tried


def _lesson(row: Compared, cheat: Cheat, number: int) -> Json:
    text = cheat(row.prompt, row.answers[row.share < 0.5], number)
    return {"prompt": [{"role": "user", "content": row.prompt}], "chosen": [{"role": "assistant", "content": text}]}


def read_written(file: Path | None) -> dict[str, str]:
    """Prompt to the answer that a person wrote."""
    lines = map(json.loads, file.read_text(encoding="utf-8").splitlines()) if file else []
    return {
        "\n".join(filter(None, [line["instruction"], one["input"]])).strip(): one["output"]
        for line in lines
        for one in line["instances"]
    }


def sum_up(worlds: Sequence[Json]) -> Json:
    stopped: dict[str, list[bool]] = defaultdict(list)
    alarms: dict[str, list[bool]] = defaultdict(list)
    for world in worlds:
        for name, broken in world["cheats"].items():
            stopped[name].append(bool(broken))
        for name, broken in world["good"].items():
            alarms[name].append(bool(broken))
    return {
        "cheats": len(stopped),
        "always_stopped": sum(map(all, stopped.values())),
        "passed": {name: of.count(False) for name, of in stopped.items() if not all(of)},
        "good": sum(map(len, alarms.values())),
        "alarms": sum(map(sum, alarms.values())),
        "worlds": len(worlds),
    }
