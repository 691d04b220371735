"""Its keys, and where they stand."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rl.base.errors import BadFile
from rl.base.names import unknown_name
from rl.base.outside_files import read_text
from rl.environments.config_file.loader import Loader, scalar

LARGEST_FILE = 2**18
"""Bytes."""
KeyPath = tuple[str, ...]
"""The keys that lead to a value."""


@dataclass(frozen=True, slots=True)
class Document:
    path: Path
    values: Mapping[str, Any]
    """JSON. What has no value (null) is left out of the sections, and stays further down."""
    lines: Mapping[KeyPath, int]
    """The line of every key."""

    def section(self, name: str, known: Collection[str] | None) -> dict[str, Any]:
        """Empty where there is none. Raises BadFile where it is not a mapping, and for a key that is not in ``known``
        (None: all are)."""
        section = self.values.get(name, {})
        if not isinstance(section, dict):
            raise self.refusal(f"{name} must be a mapping of keys and values, not {describe_value(section)}", (name,))
        if known is not None:
            self.require_known(section, known, name)
        return {key: value for key, value in section.items() if value is not None}

    def require_known(self, keys: Collection[str], known: Collection[str], section: str = "") -> None:
        """Raises BadFile."""
        for key in keys:
            if key not in known:
                key_path = (section, key) if section else (key,)
                raise self.refusal(unknown_name("key", key, known, section=section), key_path)

    def text(self, key_path: KeyPath, value: Any) -> str:
        """Raises BadFile where ``value`` is not a text."""
        if not isinstance(value, str):
            raise self.refusal(f"{'.'.join(key_path)} must be a text, in quotes, not {describe_value(value)}", key_path)
        return value

    def refusal(self, what: str, key_path: KeyPath = ()) -> BadFile:
        return BadFile(self.path, what, f"line {self.lines[key_path]}" if key_path in self.lines else "")

    def refusal_about(self, what: str, section: KeyPath) -> BadFile:
        """``what`` was said by somebody who knows no lines. Of the section's keys that it names, the innermost is meant, and
        of several such ones the first that it names; else the section."""
        words = re.findall(r"[\w-]+", what)
        key_paths = [
            path for path in self.lines if path[: len(section)] == section and {*path[len(section) :]} <= {*words}
        ]
        innermost = max(key_paths, key=lambda path: (len(path), -_first(words, path)), default=section)
        return self.refusal(what, innermost)


def read_document(path: Path) -> Document:
    """Raises BadFile for anything but a mapping in YAML."""
    lines: dict[KeyPath, int] = {}
    try:
        node = Loader(read_text(path, LARGEST_FILE, ", which no configuration is")).get_single_node()
        if node is None or node.tag.endswith(":null"):
            raise BadFile(path, "is empty; it must name at least an environment, as env: {type: code_exec}")
        values = _value(path, node, (), lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise BadFile(path, f"is not YAML: {error.problem}", f"line {mark.line + 1}" if mark else "") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise BadFile(path, f"is not YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(values, dict):
        what = f"must be a mapping of sections such as env and train, not {describe_value(values)}"
        raise BadFile(path, what, "line 1")
    return Document(path, {key: value for key, value in values.items() if value is not None}, lines)


def describe_value(value: Any) -> str:
    """For a sentence, as the file would have it."""
    match value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case bool():
            return str(value).lower()
        case None:
            return "nothing"
    return repr(value)[:100]


def _first(words: list[str], key_path: KeyPath) -> int:
    return words.index(key_path[-1]) if key_path and key_path[-1] in words else 0


def _value(path: Path, node: yaml.Node, key_path: KeyPath, lines: dict[KeyPath, int]) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return [_value(path, child, (*key_path, str(number)), lines) for number, child in enumerate(node.value)]
    return dict(_items(path, node, key_path, lines))


def _items(path: Path, node: yaml.Node, key_path: KeyPath, lines: dict[KeyPath, int]) -> Iterator[tuple[str, Any]]:
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise BadFile(path, "a key must be a text", f"line {line}")
        inner = (*key_path, key.value)
        if inner in lines:
            raise BadFile(path, f"the key {'.'.join(inner)} stands in line {lines[inner]} already", f"line {line}")
        lines[inner] = line
        yield key.value, _value(path, value, inner, lines)
