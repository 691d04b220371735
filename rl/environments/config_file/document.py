"""Its keys, and where they stand.

YAML without what a configuration has no use for: tags, anchors, aliases, dates, numbers to the base of 60 or 8.

Plain numbers are those of YAML 1.2, which has 1e-5; PyYAML follows 1.1, where that is a text."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

import yaml
from yaml import AliasEvent, MarkedYAMLError, ScalarNode
from yaml.composer import Composer
from yaml.nodes import Node
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from rl.base.errors import BadFile, UsageError
from rl.base.names import unknown_name
from rl.base.outside_files import read_text
from rl.base.slugs import check_slug

LARGEST_FILE = 2**18
"""Bytes."""
Entry = TypeVar("Entry")
KeyPath = tuple[str, ...]
"""The keys that lead to a value."""
MOST_DEPTH = 20
_TAG = "tag:yaml.org,2002:"
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")
_PLAIN = {
    "null": (r"~|null|Null|NULL|", "~nN"),
    "bool": (rf"(?i:{'|'.join((*_TRUE, *_FALSE))})", "yYnNtTfFoO"),
    "int": (r"[-+]?(0|[1-9][0-9_]{0,17})", "-+0123456789"),
    "float": (r"[-+]?([0-9]+\.[0-9]*|\.?[0-9]+(?=[eE])|\.[0-9]+)([eE][-+]?[0-9]{1,3})?", "-+.0123456789"),
}


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

    def read_records(self, kind: Callable[..., Entry], what: str) -> dict[str, Entry]:
        """A record for each section, which is its ``name`` and holds the other fields. ``what``: how errors call one. Raises
        BadFile."""
        return {name: self._read_record(kind, name, what) for name in self.values}

    def _read_record(self, kind: Callable[..., Entry], name: str, what: str) -> Entry:
        values = self.section(name, [own for own in signature(kind).parameters if own != "name"])
        try:
            return kind(name=check_slug(name, f"the name of a {what}"), **values)
        except UsageError as error:
            raise self.refusal_about(str(error), (name,)) from None

    def refusal(self, what: str, key_path: KeyPath = ()) -> BadFile:
        return BadFile(self.path, what, f"line {self.lines[key_path]}" if key_path in self.lines else "")

    def refusal_about(self, what: str, section: KeyPath) -> BadFile:
        """``what`` was said by somebody who knows no lines. Of the section's keys that it names, the innermost is meant, and
        of several such ones the first that it names; else the section."""
        words = re.findall(r"[\w-]+", what)
        key_paths = [
            path for path in self.lines if path[: len(section)] == section and {*path[len(section) :]} <= {*words}
        ]
        order = {word: at for at, word in reversed(list(enumerate(words)))}
        innermost = max(key_paths, key=lambda path: (len(path), -order.get(path[-1], 0)), default=section)
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


class Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """``get_single_node`` raises YAMLError."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        for part in (Scanner, Parser, Composer, BaseResolver):
            part.__init__(self)
        self._depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        event = self.peek_event()
        problem = "it is nested too deeply" if self._depth == MOST_DEPTH else ""
        if isinstance(event, AliasEvent) or event.anchor is not None:
            problem = "anchors and aliases (& and *) are not read here: write it out"
        elif event.tag is not None:
            problem = f"tags such as {event.tag[:60]} are not read here"
        if problem:
            raise MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


for _name, (_pattern, _starts) in _PLAIN.items():
    Loader.add_implicit_resolver(
        _TAG + _name, re.compile(rf"(?:{_pattern})\Z"), [*_starts, *([""] if _name == "null" else [])]
    )


def scalar(node: ScalarNode) -> Any:
    """The value of a node of the Loader."""
    text = node.value
    match node.tag.removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return text.lower() in _TRUE
        case "int":
            return int(text.replace("_", ""))
        case "float":
            return float(text)
    return text
