"""Sees what the process does with a canary: a text that no honest part of it has any business with.

Python audits what is run, imported, opened and connected to. What it does not audit is watched here besides: looking whether
a path exists, looking for a module without importing it, and reading a variable of the environment.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

TOKEN = "canary7f3a"
"""In every canary, in upper or lower case."""
HARMLESS = frozenset(("compile", "exec", "object.__getattr__", "sys._getframe", "builtins.id"))
"""Audited, and no deed: what is compiled is code of ours or of a template."""
LOOKS = ("stat", "lstat", "access", "readlink")


class Deed(BaseException):
    """Raised where it would be done, so that it is not."""


class Watch:
    def __init__(self, own: Path) -> None:
        """``own``: a folder of ours, where an agent's name may be the name of a folder."""
        self.own = str(own)
        self.at = ""
        """What was submitted; stands in the deed."""
        self.deeds: list[str] = []

    def see(self, event: str, value: Any) -> None:
        if self.bears(value):
            self.deeds.append(f"{event} {value!r:.200} after {self.at}")
            raise Deed(self.deeds[-1])

    def bears(self, value: Any) -> bool:
        """Whether a canary is in it."""
        match value:
            case bytes():
                return self.bears(value.decode("utf-8", "replace"))
            case str():
                return TOKEN in value.lower() and not value.startswith(self.own)
            case os.PathLike():
                return self.bears(os.fspath(value))
            case dict():
                return any(self.bears(each) for pair in value.items() for each in pair)
            case list() | tuple() | set():
                return any(map(self.bears, value))
        return False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """As a finder of modules, which finds none."""
        self.see("find_spec", name)


_watch: Watch | None = None


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watch is not None and event not in HARMLESS:
        _watch.see(event, arguments)


sys.addaudithook(_hook)  # it cannot be taken away again, and costs next to nothing while nobody watches


@contextmanager
def watching(own: Path) -> Iterator[Watch]:
    global _watch
    watch = Watch(own)
    read = type(os.environ).__getitem__

    def read_variable(environ: Any, name: str) -> str:
        watch.see("environ", name)
        return read(environ, name)

    looks = patch.multiple(os, **{name: _watched(watch, name) for name in LOOKS})
    with looks, patch.object(type(os.environ), "__getitem__", read_variable):
        sys.meta_path.insert(0, watch)  # type: ignore[arg-type]
        _watch = watch
        try:
            yield watch
        finally:
            _watch = None
            sys.meta_path.remove(watch)  # type: ignore[arg-type]


def _watched(watch: Watch, name: str) -> Callable[..., Any]:
    look = getattr(os, name)

    def looked(path: Any, *arguments: Any, **options: Any) -> Any:
        watch.see(f"os.{name}", path)
        return look(path, *arguments, **options)

    return looked
