"""One name means one thing: no two public classes of ``rl`` share theirs."""

import ast
from collections import defaultdict
from functools import cache
from importlib import import_module
from pathlib import Path

from tests.test_layers import RL, ROOT, modules

COMMANDS, SYSTEMS = RL / "management" / "commands", RL / "from_systems"
OF_COMMANDS = {"Command", "Options"}
"""Django looks for a command under the one name, and what it can be called with stands beside it under the other. No class
of anything else is called so."""
GIVEN_BACK = {"command_center": {"ExportResult", "OnlineLearner", "TrainingResult"}}
"""What functions of another system give back, under its own names: nobody has to import these."""


def names_of(system: str) -> set[str]:
    """Names that users of the other system know; they stay, whatever is called so here."""
    return {*getattr(import_module(f"rl.from_systems.{system}"), "NAMES", ()), *GIVEN_BACK.get(system, ())}


def home_of(name: str, file: Path) -> Path | None:
    """None for a class that may be called as another one is."""
    if file.parent == COMMANDS and name in OF_COMMANDS:
        return COMMANDS
    if file.is_relative_to(SYSTEMS) and file.parent != SYSTEMS:
        system = file.relative_to(SYSTEMS).parts[0]
        return None if name in names_of(system) else file
    return file


@cache
def homes_of_classes() -> dict[str, set[Path]]:
    homes: dict[str, set[Path]] = defaultdict(set)
    for file in modules().values():
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and (home := home_of(node.name, file)):
                homes[node.name].add(home)
    return homes


def test_no_two_public_classes_have_the_same_name():
    shared = [
        f"{name} is the name of classes in {' and '.join(sorted(str(home.relative_to(ROOT)) for home in homes))}"
        for name, homes in sorted(homes_of_classes().items())
        if len(homes) > 1
    ]
    assert not shared, "\n".join(shared)


def test_every_exception_is_needed():
    kept = {
        name
        for system, names in GIVEN_BACK.items()
        for file in (SYSTEMS / system).rglob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and (name := node.name) in names
    }
    assert kept == set().union(*GIVEN_BACK.values())
    assert kept <= homes_of_classes().keys()
