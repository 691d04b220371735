"""Tasks and demonstrations for ``agents.py``: programs with two steps, and facts that are in documents only."""

import json
import operator
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl.environments.contract import Action
from rl.environments.settings import EnvironmentSettings

Task = dict[str, Any]
GIVE_UP = Action("I do not know.")
GIVEN_UP = 0.75
"""Share of the demonstrations of hard tasks in which the demonstrator gives up; 0.05 of the others."""
TOWNS = [
    "Velmora",
    "Tarsk",
    "Ondria",
    "Quell",
    "Brenica",
    "Sulvane",
    "Istrel",
    "Dunmere",
    "Palvo",
    "Sanvo",
    "Cotrin",
    "Ulmar",
    "Corleth",
    "Vintra",
    "Harlow",
    "Fenwick",
    "Corran",
    "Selby",
    "Marden",
    "Tolvar",
    "Eskin",
    "Ravna",
    "Lorth",
    "Pelgar",
    "Nimbra",
    "Ostway",
    "Calder",
    "Brisk",
    "Yarrow",
    "Dorrin",
    "Hespa",
    "Wenlow",
]
FACTS = {"capital": False, "river": True, "king": True}
"""What is asked of a town, and whether the demonstrator finds it hard."""
STEPS: dict[str, tuple[bool, Callable[[int, int], int]]] = {
    "+": (False, operator.add),
    "-": (True, operator.sub),
    "*": (True, operator.mul),
}
"""What a program does first with its number, and whether the demonstrator finds it hard."""


@dataclass(frozen=True, slots=True)
class World:
    settings: EnvironmentSettings
    demonstrations: list[tuple[Task, Sequence[Action]]]
    train: list[Task]
    held_out: list[Task]

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for split, tasks in (("train", self.train), ("eval", self.held_out)):
            lines = "".join(json.dumps(task) + "\n" for task in tasks)
            (folder / f"{split}.jsonl").write_text(lines, encoding="utf-8")

    @property
    def texts(self) -> list[str]:
        """What a tokenizer learns its words from."""
        texts = [
            text for task, actions in self.demonstrations for text in (_question(task), *map(_action_text, actions))
        ]
        return texts + [text for task, _ in self.demonstrations for text in task.get("documents", ())]


def world(kind: str, seed: int, demonstrations: int, train: int, held_out: int) -> World:
    """The held-out tasks are asked nowhere else."""
    draw = random.Random(f"{kind} {seed}")
    make, options = {"code": (_code_task, "code_exec"), "search": (_search_task, "search")}[kind]
    tasks: dict[str, tuple[Task, bool]] = {}
    while len(tasks) < demonstrations + train + held_out:
        task, hard = make(draw)
        tasks.setdefault(task["task_id"], (task, hard))
    settings = EnvironmentSettings(options, {"system_prompt": "", "max_turns": 3})
    environment, drawn = settings.build(), list(tasks.values())
    demonstrated = [
        (task, (GIVE_UP,) if draw.random() < (GIVEN_UP if hard else 0.05) else tuple(environment.demonstration(task)))
        for task, hard in drawn[:demonstrations]
    ]
    rest = [task for task, _ in drawn[demonstrations:]]
    return World(settings, demonstrated, rest[:train], rest[train:])


def _code_task(draw: random.Random) -> tuple[Task, bool]:
    """A sum of four, or a product and a sum of two."""
    signs = [draw.choice(list(STEPS)), draw.choice("+-"), draw.choice("+-")]
    numbers = draw.choices(range(2, 10), k=3)
    after = " ".join(f"{sign} {number}" for sign, number in zip(signs, numbers, strict=True))
    task = {
        "task_id": f"x {after}",
        "prompt": f"Read a number x. Print x {after}",
        "tests": [{"input": f"{x}\n", "output": str(_calculate(x, signs, numbers))} for x in (5, 31)],
        "reference_solution": f"print(int(input()) {after})",
    }
    return task, STEPS[signs[0]][0]


def _calculate(x: int, signs: Sequence[str], numbers: Sequence[int]) -> int:
    for sign, number in zip(signs, numbers, strict=True):
        x = STEPS[sign][1](x, number)
    return x


def _search_task(draw: random.Random) -> tuple[Task, bool]:
    fact, towns = draw.choice(list(FACTS)), draw.sample(TOWNS, 4)
    answers = draw.sample(TOWNS, 4)
    documents = [f"The {fact} of {town} is {answer}." for town, answer in zip(towns, answers, strict=True)]
    task = {
        "task_id": f"{fact}-{'-'.join(towns)}-{answers[0]}",
        "question": f"What is the {fact} of {towns[0]}?",
        "answer": answers[0],
        "documents": draw.sample(documents, 4),
        "metadata": {"query": f"{fact} {towns[0]}"},
    }
    return task, FACTS[fact]


def _question(task: Task) -> str:
    return str(task.get("prompt") or task["question"])


def _action_text(action: Action) -> str:
    return action.text + "".join(
        json.dumps({"name": call.name, "arguments": dict(call.arguments)}) for call in action.calls
    )
