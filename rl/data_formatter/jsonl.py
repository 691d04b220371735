"""Preference pairs as JSON lines, and as rows that a trainer reads."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from rl.base.errors import BadFile, UsageError
from rl.base.files import replacing
from rl.base.messages import is_function, requested_calls
from rl.base.names import unknown_name
from rl.base.outside_files import open_outside
from rl.base.records import GeneratedAnswer, Message, PreferencePair
from rl.config.methods import Column, find_rows
from rl.data_formatter.runs import answer_messages, apart, tools_column

LONGEST_LINE = 16 * 2**20
"""Bytes; a longer line is not a pair, and reading on would only fill the memory."""
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_TEXTS = ("chosen", "rejected", "question_id")
_STEPS = ("chosen_steps", "rejected_steps")
_OPTIONAL = ("scenario", "metadata", *_STEPS, "tools")
_OF_MESSAGE = set(Message.__annotations__)
_NAMES = tuple(field.name for field in fields(PreferencePair))


def training_row(pair: PreferencePair) -> dict[str, Any]:
    """TRL's conversational preference format, with the prompt's key and the ids of the feedback behind the pair. Of runs
    with tools the prompt goes up to where they part, and ``tools`` has the tools' schemas."""
    prompt = [Message(role="user", content=pair.prompt)] if isinstance(pair.prompt, str) else pair.prompt
    chosen = answer_messages(pair.chosen, pair.chosen_steps or ())
    rejected = answer_messages(pair.rejected, pair.rejected_steps or ())
    return {
        **apart(prompt, chosen, rejected)._asdict(),
        **tools_column(pair.tools or ()),
        "prompt_key": pair.question_id,
        "feedback": (pair.metadata or {}).get("feedback", []),
    }


def pairs_to_jsonl(pairs: Iterable[PreferencePair], path: Path | str) -> int:
    """How many were written. The file appears whole or not at all; raises UsageError if it cannot be written."""
    target = Path(path)
    count = 0
    try:
        with replacing(target, "wb") as file:
            for count, pair in enumerate(pairs, 1):
                file.write(_encode(pair, count))
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror or error}") from error
    return count


def load_pairs_from_jsonl(path: Path | str) -> list[PreferencePair]:
    """Blank lines are skipped. Raises BadFile with the line number and the field that is wrong."""
    source = Path(path)
    pairs = []
    for number, row in json_lines(source):
        if problem := _problem(row):
            raise BadFile(path, problem, f"line {number}")
        pairs.append(PreferencePair(**row))
    return pairs


def _encode(pair: PreferencePair, number: int) -> bytes:
    row = {name: getattr(pair, name) for name in _NAMES if name not in _OPTIONAL or getattr(pair, name) is not None}
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise UsageError(f"pair {number} of {pair.question_id!r} cannot be written as JSON: {error}") from error


def json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """The number and the value of each line that is not blank. Raises BadFile that names the line."""
    for number, line in raw_lines(path):
        yield number, json_value(path, number, line)


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The number and the bytes of each line that is not blank. Raises BadFile for one that is too long."""
    with open_outside(path) as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise BadFile(path, f"longer than {LONGEST_LINE // 2**20} MiB", f"line {number}")
            if line.strip():
                yield number, line


def json_value(path: Path, number: int, line: bytes) -> Any:
    """The JSON value of one raw line; ``number`` is for the message. Raises BadFile."""
    where = f"line {number}"
    try:
        value = json.loads(line.rstrip().decode())
        if _SURROGATE.search(line):
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise BadFile(path, f"not valid JSON: {error.msg}", f"{where}, column {error.colno}") from error
    except UnicodeEncodeError as error:
        raise BadFile(path, "a text contains half of a surrogate pair", where) from error
    except (ValueError, RecursionError) as error:
        raise BadFile(path, f"not valid JSON: {error}", where) from error
    return value


def _problem(row: object) -> str:
    """What is wrong with a line's value; empty when nothing is."""
    if not isinstance(row, dict):
        return "a line must be one JSON object"
    if unknown := sorted(set(row) - set(_NAMES)):
        return unknown_name("field", unknown[0], _NAMES)
    for name in _NAMES:
        if name not in row and name not in _OPTIONAL:
            return f"field {name!r} is missing"
    for name in _TEXTS:
        if not isinstance(row[name], str):
            return f"field {name!r} must be text, not {_kind(row[name])}"
    prompt = row["prompt"]
    if not isinstance(prompt, (str, list)):
        return f"field 'prompt' must be text or a list of messages, not {_kind(prompt)}"
    return ("" if isinstance(prompt, str) else messages_problem("prompt", prompt)) or _optional_problem(row)


def messages_problem(name: str, messages: object) -> str:
    """What is wrong with a field of messages; empty when nothing is."""
    if not isinstance(messages, list):
        return f"field {name!r} must be a list of messages, not {_kind(messages)}"
    for message in messages:
        if not isinstance(message, dict) or not {"role", "content"} <= set(message) <= _OF_MESSAGE:
            return (
                f"field {name!r} must hold messages with 'role' and 'content' and nothing else but what tool calls need"
            )
        if not all(isinstance(message[part], str) for part in ("role", "content")):
            return f"field {name!r} must hold messages whose 'role' and 'content' are text"
        try:
            requested_calls(message)
        except ValueError as error:
            return f"field {name!r}: {error}"
    return ""


def _optional_problem(row: dict[str, Any]) -> str:
    if not isinstance(row.get("scenario"), (str, type(None))):
        return f"field 'scenario' must be text, not {_kind(row['scenario'])}"
    if not isinstance(row.get("metadata"), (dict, type(None))):
        return f"field 'metadata' must be an object, not {_kind(row['metadata'])}"
    if not is_tools(row.get("tools") or []):
        return "field 'tools' must be a list of tools, each an object with a function"
    return next(filter(None, (messages_problem(name, row[name]) for name in _STEPS if row.get(name) is not None)), "")


def is_tools(value: object) -> bool:
    """A list of schemas of tools, as chat templates take them."""
    return isinstance(value, list) and all(map(is_function, value))


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__


UNSEEN: Final = "unseen.jsonl"


def unseen_line(prompt_key: str, answer: GeneratedAnswer) -> str:
    values = {"prompt_key": prompt_key, "answer": answer.text, "in": answer.tokens_in, "out": answer.tokens_out}
    return json.dumps(values, ensure_ascii=False) + "\n"


def read_unseen(file: Path) -> dict[str, GeneratedAnswer]:
    """By the key of the prompt; empty where there is no such file."""
    if not file.is_file():
        return {}
    lines = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    return {line["prompt_key"]: GeneratedAnswer(line["answer"], line["in"], line["out"]) for line in lines}


def read_training_rows(path: Path, method: str = "dpo") -> Iterator[dict[str, Any]]:
    """Raises BadFile that names the line and the field, UsageError that lists the known methods."""
    kind = find_rows(method)
    for number, value in json_lines(path):
        row = value if isinstance(value, dict) else {}
        for name, column in {"prompt": Column.MESSAGES, **kind.columns_of(row)}.items():
            is_null = name in kind.optional and name in row and row[name] is None
            if not is_null and not _IS_RIGHT[column](row.get(name)):
                or_null = " or null" if name in kind.optional else ""
                raise BadFile(path, f"{name} must be {column}{or_null}", f"line {number}")
        if kind.optional and not any(row[name] for name in kind.optional):
            raise BadFile(path, f"{' and '.join(sorted(kind.optional))} are all null", f"line {number}")
        if not is_tools(row.get("tools", [])):
            raise BadFile(path, "tools must be a list of tools, each an object with a function", f"line {number}")
        yield row


def _is_messages(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_message(message) for message in value)


def _is_message(value: object) -> bool:
    if not isinstance(value, dict) or not all(isinstance(value.get(part), str) for part in ("role", "content")):
        return False
    try:
        return requested_calls(value) is not None
    except ValueError:
        return False


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_list_of(is_right: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and bool(value) and all(map(is_right, value))


_IS_RIGHT: Final[Mapping[Column, Callable[[object], bool]]] = {
    Column.MESSAGES: _is_messages,
    Column.ANSWERS: _is_list_of(_is_messages),
    Column.FLAG: lambda value: isinstance(value, bool),
    Column.NUMBER: _is_number,
    Column.SCORE: lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1,
    Column.NUMBERS: _is_list_of(_is_number),
    Column.OBJECT: lambda value: isinstance(value, dict),
}
