"""A machine with ``requirements.lock`` alone serves the whole site: what its processes may import, also in a function, is in
that lock, or asked for by ``find_spec`` in the same file. What ``leaf`` loads is missed with a sentence, and not meant.
"""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.test_layers import ROOT
from tests.test_locks import normal, pins

BEGINNINGS = ("backend", "rl.admin", "rl.doctor", "rl.from_systems", "rl.management", "rl.tasks", "rl.web")
_ASKED = re.compile(r'find_spec\("(\w+)"\)')


def file_of(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@cache
def imports_of(file: Path) -> frozenset[str]:
    """Modules, also those that a function imports, but not those that only annotations name."""
    names: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(file.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        waiting += ast.iter_child_nodes(node)
    return frozenset(names)


def of_the_site() -> Iterator[tuple[str, Path]]:
    """Every module that its processes may come to, with its file."""
    files = [file for name in BEGINNINGS for file in [*ROOT.joinpath(*name.split(".")).rglob("*.py"), file_of(name)]]
    waiting = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files if file]
    seen: set[str] = set()
    while waiting:
        module = waiting.pop().removesuffix(".__init__")
        file = file_of(module)
        if module in seen or file is None or module.split(".")[0] not in ("backend", "rl"):
            continue
        seen.add(module)
        yield module, file
        waiting += [module.rpartition(".")[0], *imports_of(file)]


def test_what_the_site_may_import_is_in_its_lock():
    locked = {name for name, _ in pins("requirements.lock")}
    distributions = packages_distributions()
    offences, modules = set(), dict(of_the_site())
    assert {"backend.settings", "rl.models.traces", "rl.web.pages.rating", "rl.raters.dawid_skene"} <= set(modules)
    for module, file in modules.items():
        asked = set(_ASKED.findall(file.read_text()))
        packages = {name.split(".")[0] for name in imports_of(file)} - {"backend", "rl", *sys.stdlib_module_names}
        for package in packages - asked:
            if not {normal(name) for name in distributions.get(package, ())} & locked:
                offences.add(f"{module} imports {package}")
    assert sorted(offences) == []
