"""Regular expressions that judge a whole text say where it ends: ``$`` also stands before a line break at the end."""

import ast
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

FUNCTIONS = {"compile", "match", "search", "fullmatch", "re_path", "RegexValidator"}


def loose_ends(source: str) -> Iterator[int]:
    """Lines of patterns that end in $, but for those of many lines."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call) or ast.unparse(call.func).rpartition(".")[2] not in FUNCTIONS:
            continue
        texts = [node.value for given in call.args[:1] for node in ast.walk(given) if isinstance(node, ast.Constant)]
        pattern = "".join(text for text in texts if isinstance(text, str))
        flags = " ".join(map(ast.unparse, [*call.args[1:], *(keyword.value for keyword in call.keywords)]))
        if pattern.endswith("$") and not pattern.endswith("\\$") and "MULTILINE" not in flags:
            yield call.lineno


def test_no_pattern_lets_a_line_break_through_at_its_end():
    files = [path for room in ("rl", "backend", "deploy") for path in sorted((settings.BASE_DIR / room).rglob("*.py"))]
    assert [f"{path}:{line}" for path in files for line in loose_ends(Path(path).read_text())] == []


def test_the_look_finds_them():
    assert list(
        loose_ends('import re\nre.compile("^a$")\nre.match(r"a\\$", "a$")\nre.search("a$", "", re.MULTILINE)')
    ) == [2]
