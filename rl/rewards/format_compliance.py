"""The shape that was asked for."""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from rl.base.names import unknown_name
from rl.base.records import TraceRecord
from rl.rewards.base import BaseReward, RewardResult
from rl.rewards.blocks import LONGEST, fenced_blocks, outside
from rl.rewards.syntax import is_json

_STRUCTURE = re.compile(r"^ {0,3}(?:#{1,6} |[-*+] |\d{1,9}[.)] |> |```|~~~|\|.*\|)", re.MULTILINE)
_TAG = re.compile(r"</[A-Za-z][^<>\n]{0,200}>|<[A-Za-z][^<>\n]{0,200}>")
TOOL_CALL = "<tool_call>"
MOST_TAGS = 5
"""Tags of each kind, opening and closing, that are counted."""
_HTML = re.compile(r"</?[A-Za-z][A-Za-z0-9-]{0,30}(?:\s[^<>]{0,200})?/?>")


class FormatComplianceReward(BaseReward):
    """Does the answer have the shape that was asked for? Asked by ``details["format"]``, else by the agent; where nothing
    was asked it does not apply. A format is one of FORMATS, or an object with its name as ``type`` and, of json, the
    ``keys`` that must be there, or of code its ``language``."""

    name = "format_compliance"
    weight = 1.0

    def __init__(self, expected: str = "") -> None:
        self.expected = expected

    def compute(self, trace: TraceRecord) -> RewardResult:
        expected = trace.details.get("format") or self.expected
        options = expected if isinstance(expected, Mapping) else {"type": expected}
        name = options.get("type")
        if not name:
            return self.abstains("no format was asked for")
        if not isinstance(name, str) or name not in FORMATS:
            return self.abstains(unknown_name("format", name, FORMATS))
        if len(trace.response) > LONGEST:
            return self.abstains("the answer is too long to look at")
        value, reason = FORMATS[name](trace.response, options)
        return self.gives(value, reason, format=name)


Verdict = tuple[float, str]


def _json(text: str, options: Mapping[str, Any]) -> Verdict:
    """1 for JSON alone, 0.8 in a fence alone, 0.5 in a fence among other text; times the share of the keys."""
    if _is_json(text):
        document, value = json.loads(text), 1.0
    else:
        fences = fenced_blocks(text) or []
        valid = [block for block in fences if block.language in ("", "json") and _is_json(block.code)]
        if not valid:
            return 0.0, "there is no JSON in it"
        is_alone = len(valid) == 1 and not outside(text, valid).strip()
        document, value = json.loads(valid[-1].code), 0.8 if is_alone else 0.5
    keys = options.get("keys")
    required = [key for key in keys if isinstance(key, str)] if isinstance(keys, Sequence) else []
    if not required or isinstance(keys, str):
        return value, "JSON" if value == 1 else "JSON, but not by itself"
    count = sum(isinstance(document, dict) and key in document for key in required)
    return value * count / len(required), f"JSON with {count} of {len(required)} keys"


def _is_json(text: str) -> bool:
    try:
        return is_json(text)
    except RecursionError:
        return False


def _code(text: str, options: Mapping[str, Any]) -> Verdict:
    """0 without a code block, else from 0.5 to 1 with the share of the answer that is code."""
    language = str(options.get("language") or "")
    blocks = [block for block in fenced_blocks(text) or [] if language in ("", block.language) and block.code.strip()]
    if not blocks:
        return 0.0, f"there is no {language} code block in it".replace("  ", " ")
    code = sum(_size(block.code) for block in blocks)
    share = code / (code + _size(outside(text, blocks)))
    return 0.5 + 0.5 * share, f"{share:.0%} of it is code"


def _markdown(text: str, _: Mapping[str, Any]) -> Verdict:
    """The mean of three: it has structure (headings, lists, quotes, tables, code), its fences are closed, no raw HTML."""
    blocks = fenced_blocks(text) or []
    faults = {
        "no structure": not _STRUCTURE.search(text),
        "a code block that is not closed": not all(block.closed for block in blocks),
        "raw HTML": bool(_HTML.search(outside(text, blocks))),
    }
    names = [name for name, is_present in faults.items() if is_present]
    value = fmean(not is_present for is_present in faults.values()) if text.strip() else 0.0
    return value, ", ".join(names) or "Markdown"


def _plain(text: str, _: Mapping[str, Any]) -> Verdict:
    """1 for text without markup outside of its code blocks; each opening and each closing tag costs 0.1, at most 5 of both
    together."""
    if not text.strip():
        return 0.0, "there is nothing in it"
    tags = Counter(
        "/" if tag.startswith("</") else "<" for tag in _TAG.findall(outside(text, fenced_blocks(text) or []))
    )
    count = min(MOST_TAGS, tags["<"]) + min(MOST_TAGS, tags["/"])
    return 1 - min(0.5, 0.1 * count), f"{count} tags of markup" if count else "plain text"


def _tool_call(text: str, _: Mapping[str, Any]) -> Verdict:
    """The share of the ``<tool_call>`` elements that are closed and hold an object with ``name`` and ``arguments``."""
    parts = text.split(TOOL_CALL)[1:]
    if not parts:
        return 0.0, "there is no tool call in it"
    good = sum(_is_call(part) for part in parts)
    return good / len(parts), f"{good} of {len(parts)} tool calls can be read"


def share_of_readable_calls(text: str) -> float:
    return _tool_call(text, {})[0]


def _is_call(part: str) -> bool:
    body, end, _ = part.partition("</tool_call>")
    if not end or not _is_json(body):
        return False
    call = json.loads(body)
    return isinstance(call, dict) and isinstance(call.get("name"), str) and isinstance(call.get("arguments"), dict)


def _size(text: str) -> int:
    return len("".join(text.split()))


FORMATS: Mapping[str, Callable[[str, Mapping[str, Any]], Verdict]] = {
    "json": _json,
    "code": _code,
    "markdown": _markdown,
    "plain": _plain,
    "tool_call": _tool_call,
}
