"""YAML without what a configuration has no use for: tags, anchors, aliases, dates, numbers to the base of 60 or 8.

Plain numbers are those of YAML 1.2, which has 1e-5; PyYAML follows 1.1, where that is a text.
"""

from __future__ import annotations

import re
from typing import Any

from yaml import AliasEvent, MarkedYAMLError, ScalarNode
from yaml.composer import Composer
from yaml.nodes import Node
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

MOST_DEPTH = 20
_TAG = "tag:yaml.org,2002:"
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")
_PLAIN = {
    "null": (r"~|null|Null|NULL|", "~nN"),
    "bool": (rf"(?i:{'|'.join((*_TRUE, *_FALSE))})", "yYnNtTfFoO"),
    "int": (r"[-+]?(0|[1-9][0-9_]{0,17})", "-+0123456789"),
    "float": (r"[-+]?([0-9]+\.[0-9]*|\.?[0-9]+(?=[eE])|\.[0-9]+)([eE][-+]?[0-9]{1,3})?", "-+.0123456789"),
}


class Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """``get_single_node`` raises YAMLError."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        for part in (Scanner, Parser, Composer, BaseResolver):
            part.__init__(self)
        self._depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        event = self.peek_event()
        if isinstance(event, AliasEvent) or event.anchor is not None:
            raise MarkedYAMLError(
                problem="anchors and aliases (& and *) are not read here: write it out", problem_mark=event.start_mark
            )
        if event.tag is not None:
            raise MarkedYAMLError(
                problem=f"tags such as {event.tag[:60]} are not read here", problem_mark=event.start_mark
            )
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise MarkedYAMLError(problem="it is nested too deeply", problem_mark=event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


for _name, (_pattern, _first) in _PLAIN.items():
    Loader.add_implicit_resolver(
        _TAG + _name, re.compile(rf"(?:{_pattern})\Z"), [*_first, *([""] if _name == "null" else [])]
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
