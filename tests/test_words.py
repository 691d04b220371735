"""Names say what a value is, and functions what they do: the worst words do not come back."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = [*ROOT.glob("backend/*.py"), *ROOT.glob("rl/**/*.py")]
EMPTY = {"found", "said", "told", "place", "one", "each"}
"""As the name of a value these say nothing about it."""
IRREGULAR = re.compile(
    "begun|bound|broken|brought|built|caught|chosen|done|drawn|felt|found|frozen|given|gone|grown|heard|held|hidden|kept|"
    "known|left|lost|made|met|paid|seen|sent|shown|sold|spoken|taken|told|torn|worn|written"
)
VERBS = {"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "succeed"}
"""They end as participles do."""
NEGATION = re.compile(
    r"\b(?:is|are|was) no (?!longer|more\b|less\b|other\b|later\b|earlier\b|sign\b|need\b|such\b|one\b|answer\b|way\b)\w+"
)
"""As in "is no port", where an English speaker says "is not a port"."""


def is_participle(name: str) -> bool:
    bare = name.strip("_")
    return bool(IRREGULAR.fullmatch(bare)) or (bare.isalpha() and bare.endswith("ed") and bare not in VERBS)


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def names(tree: ast.AST) -> Iterator[str]:
    """Of variables, arguments and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return {
        str(file.relative_to(ROOT)): ast.parse(file.read_text()) for file in FILES if "migrations" not in file.parts
    }


def test_no_value_has_an_empty_name(trees: dict[str, ast.Module]):
    empty = {file: sorted({name for name in names(tree) if name.strip("_") in EMPTY}) for file, tree in trees.items()}
    assert {file: words for file, words in empty.items() if words} == {}


def test_functions_are_verbs_and_not_participles(trees: dict[str, ast.Module]):
    participles = [
        f"{file}:{node.lineno} {node.name}"
        for file, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and is_participle(node.name)
        and not is_property(node)
    ]
    assert participles == []


def test_texts_say_that_something_is_not_a_thing(trees: dict[str, ast.Module]):
    texts = [
        f"{file}:{node.lineno} …{match[0]}…"
        for file, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for match in NEGATION.finditer(node.value)
        if not node.value[: match.start()].lower().endswith("there ")
    ]
    assert texts == []


def test_docstrings_can_be_read_alone(trees: dict[str, ast.Module]):
    """ "Of one answer." is not a sentence about anything."""
    clauses = [
        f"{file}:{node.lineno} {node.value.value.splitlines()[0]}"
        for file, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and str(node.value.value).startswith("Of ")
    ]
    assert clauses == []


def test_the_formatter_has_no_exceptions():
    files = [*FILES, *ROOT.glob("tests/**/*.py"), *ROOT.glob("benchmarks/*.py"), *ROOT.glob("docs/examples/*.py")]
    assert [str(file) for file in files if re.search(r"# fmt: (skip|off)", file.read_text())] == []


def test_participles_are_told_from_verbs():
    assert [name for name in ("_kept", "counted", "embed", "_read_rows", "freed", "cut") if is_participle(name)] == [
        "_kept",
        "counted",
        "freed",
    ]
    assert NEGATION.search("it is no port")
    assert not NEGATION.search("it is no longer there")
