"""Files as other systems write them, for the tests of the importers."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

from rl.collect.traces.imported import ImportedTrace, Rejected


def lines(folder: Path, *rows: Any, name: str = "file.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def document(folder: Path, value: Any, name: str = "file.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    return path


def taken(module: ModuleType, path: Path) -> list[Any]:
    """What is read, none of it rejected."""
    found = list(module.read(path))
    assert [one for one in found if isinstance(one, Rejected)] == []
    return found


def one(module: ModuleType, folder: Path, row: dict[str, Any]) -> ImportedTrace:
    (found,) = taken(module, lines(folder, row))
    return found


def reason(module: ModuleType, folder: Path, row: Any, good: dict[str, Any]) -> str:
    """Why ``row`` is rejected, in a file that begins with a good one."""
    rejected = [each for each in module.read(lines(folder, good, row)) if isinstance(each, Rejected)]
    assert len(rejected) == 1
    assert rejected[0].where == "line 2"
    return rejected[0].reason


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}
