"""A task file of lm-evaluation-harness, as far as is looked at before it runs: one task, on data of its own folder.

That keeps a mistake from measuring on other data than a person thinks. It does not protect: ``!function`` in such a file
runs Python of whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from rl.base.errors import BadFile, UsageError
from rl.base.outside_files import read_text

_SPLITTING = ",*?[]"
"""lm-eval takes a path for a list, or for a pattern, when it has one of these."""


class _Loader(yaml.SafeLoader):
    """``!function`` is a text, and is not followed."""


_Loader.add_constructor("!function", lambda _, node: str(node.value))


def check(named: str) -> Path:
    """The absolute path. Raises UsageError for what is not a task file, and BadFile for one that names files elsewhere."""
    file = Path(named).expanduser().resolve()
    if not file.is_file():
        raise UsageError(f"--lm-eval {named}: there is no such file")
    if file.suffix != ".yaml" or any(letter in str(file) for letter in _SPLITTING):
        raise UsageError(f"--lm-eval {named}: lm-eval needs a path that ends with .yaml and has none of {_SPLITTING}")
    task = _read(file).get("task")
    if not isinstance(task, str):
        raise BadFile(file, "it has to describe one task, named by a text", "task")
    _check_locations(file, file.parent, {file})
    return file


def _check_locations(file: Path, folder: Path, seen: set[Path]) -> None:
    """Included files are relative to the file that includes them, data to the folder of the task, where lm-eval runs."""
    task = _read(file)
    included = [file.parent / named for named in _paths(task.get("include"))]
    arguments = task.get("dataset_kwargs")
    data = [arguments.get("data_files"), arguments.get("data_dir")] if isinstance(arguments, dict) else []
    for path in (*included, *(folder / named for named in _paths(data))):
        if not path.resolve().is_relative_to(folder) or ":/" in str(path):
            raise BadFile(file, f"{path} is not in the folder of the task; put it there")
    for other in {path.resolve() for path in included} - seen:
        _check_locations(other, folder, {*seen, other})


def _paths(value: Any) -> Iterator[str]:
    """The paths in a text, a list or a mapping of them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _paths(part)


def _read(file: Path) -> dict[str, Any]:
    try:
        task = yaml.load(read_text(file), Loader=_Loader)  # noqa: S506  a SafeLoader
    except yaml.YAMLError as error:
        raise BadFile(file, f"it is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(task, dict):
        raise BadFile(file, "it is not a mapping: a task file has task, dataset_path and more")
    return task
