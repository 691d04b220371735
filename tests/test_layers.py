"""Imports run one way. What a folder may import stands in the docstring of its ``__init__``, in a line such as

    Imports: base, config, models; Django.

which holds for the folders in it too, unless they have a line of their own. Modules that lie in ``rl`` itself have one each.
"""

import ast
import re
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
RL = ROOT / "rl"
LIBRARIES = {
    "torch": {"torch", "transformers", "trl", "peft", "datasets", "accelerate"},
    "Django": {
        "django",
        "django_q",
        "django_filters",
        "rest_framework",
        "drf_spectacular",
        "axes",
        "corsheaders",
        "csp",
    },
}
OUTSIDE = {"admin", "apps", "checks", "doctor", "from_systems", "management", "quickstart", "tasks", "web"}
"""Nobody below imports these."""
LINE = re.compile(r"^Imports: ([\w,\s]+?)(?:; ([\w,\s]+))?\.$", re.MULTILINE)


class Allowed(NamedTuple):
    rooms: set[str]
    libraries: set[str]


def modules() -> dict[str, Path]:
    files = sorted(RL.rglob("*.py"))
    names = {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}
    return {name: file for name, file in names.items() if name != "rl" and "migrations" not in name}


@cache
def imports_of(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} if node.module != "rl" else {f"rl.{alias.name}" for alias in node.names}
    return names


def room_of(module: str) -> str:
    return module.split(".")[1]


def rooms_of(file: Path, own: str) -> set[str]:
    return {room_of(name) for name in imports_of(file) if name.startswith("rl.")} - {own}


def libraries_of(file: Path) -> set[str]:
    imported = {name.split(".")[0] for name in imports_of(file)}
    return {library for library, packages in LIBRARIES.items() if imported & packages}


def declaration(file: Path) -> Allowed | None:
    line = LINE.search(ast.get_docstring(ast.parse(file.read_text())) or "")
    if line is None:
        return None
    rooms, libraries = (set(re.split(r",\s+", part)) if part else set() for part in line.groups())
    return Allowed(rooms - {"nothing"}, libraries)


def allowed(file: Path) -> Allowed:
    """By the innermost folder that says it. Raises LookupError where none does."""
    if file.parent == RL:
        found = declaration(file)
        if found:
            return found
    for folder in file.parents:
        if folder == RL:
            break
        if found := declaration(folder / "__init__.py"):
            return found
    raise LookupError(f"{file.relative_to(ROOT)}: no docstring says 'Imports: …'")


def test_every_file_imports_only_what_its_folder_says():
    offences = []
    for module, file in modules().items():
        may = allowed(file)
        offences += [f"{module} imports {room}" for room in rooms_of(file, room_of(module)) - may.rooms]
        offences += [f"{module} imports {library}" for library in libraries_of(file) - may.libraries]
    assert sorted(offences) == []


def test_no_folder_says_more_than_it_needs():
    used: dict[Path, Allowed] = defaultdict(lambda: Allowed(set(), set()))
    for module, file in modules().items():
        says = file if file.parent == RL else next(f for f in file.parents if declaration(f / "__init__.py"))
        used[says].rooms.update(rooms_of(file, room_of(module)))
        used[says].libraries.update(libraries_of(file))
    too_much = {}
    for says, needed in used.items():
        may = declaration(says if says.is_file() else says / "__init__.py")
        assert may is not None
        if extra := sorted((may.rooms - needed.rooms) | (may.libraries - needed.libraries)):
            too_much[str(says.relative_to(ROOT))] = extra
    assert too_much == {}


def test_packages_form_no_knot():
    graph: dict[str, set[str]] = defaultdict(set)
    for module, file in modules().items():
        graph[room_of(module)] |= rooms_of(file, room_of(module))
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as knot:
        pytest.fail(f"packages that import each other: {' -> '.join(knot.args[1])}")


def test_nothing_below_imports_the_outside():
    offences = [
        f"{module} imports {room}"
        for module, file in modules().items()
        if room_of(module) not in OUTSIDE
        for room in rooms_of(file, room_of(module)) & OUTSIDE
    ]
    assert offences == []


def test_what_needs_torch_never_touches_the_database():
    both = [module for module, file in modules().items() if libraries_of(file) == {"torch", "Django"}]
    assert both == []
    beside_models = [
        module for module, file in modules().items() if "torch" in libraries_of(file) and "models" in rooms_of(file, "")
    ]
    assert beside_models == []


def test_files_and_functions_stay_small():
    too_long = []
    for module, file in modules().items():
        text = file.read_text()
        if text.count("\n") > 300:
            too_long.append(f"{module}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > 45:
                    too_long.append(f"{module}.{node.name}: {length} lines")
    assert too_long == []
