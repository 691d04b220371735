"""Langfuse's exports: traces and generations with their scores, and files of scores alone. JSON, JSON lines, CSV or Parquet.

A row with input and output (text, messages, or any JSON) is an answer, known by its id. A row with a trace id, a name and a
value is a score of an answer that is here already. Names may be those of Langfuse's API (``traceId``) or of its storage.

A score that a judge model gave (source EVAL) is not a person's opinion. Others are where their name says so (RATINGS) and
their values look like it: truth values, words, and numbers of 0 … 1, -1 … 1, or 1 … 5 over the whole file, or of the scale
that the operator names. All the rest become outcomes under their own name: a latency of 0.4 is not a bad mark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rl.base.errors import BadFile, UsageError
from rl.collect.importers import chat, fields
from rl.collect.importers.fields import NotForUs, Refused
from rl.collect.importers.report import KEPT
from rl.collect.importers.rows import TABLES as SUFFIXES  # noqa: F401  for those who ask for it
from rl.collect.importers.rows import Record, records, rows
from rl.collect.limits import MAX_METRIC_LENGTH, MAX_RATER_LENGTH, MAX_WHOLE_NUMBER
from rl.collect.traces.imported import ImportedFeedback, ImportedRemark, ImportedTrace, Rejected

_LISTS = ("data",)
_ANSWERS = ("", "GENERATION")
"""Types of observations; a trace has none."""
_READ_AS = {
    name: meaning
    for meaning, names in {
        "the question": ("input",),
        "the answer": ("output",),
        "the id of the answer": ("id", "traceId", "trace_id", "observationId", "observation_id"),
        "scores": ("scores", "name", "value", "stringValue", "string_value", "dataType", "data_type", "source"),
        "the note of a score": ("comment",),
        "the rater": ("authorUserName", "author_user_name", "authorUserId", "author_user_id"),
        "the time": ("timestamp", "startTime", "start_time", "endTime", "end_time", "createdAt", "created_at"),
        "the session": ("sessionId", "session_id"),
        "figures": ("latency", "totalCost", "total_cost", "usageDetails", "usage_details", "usage", "inputTokens")
        + ("input_tokens", "outputTokens", "output_tokens"),
        "the model": ("providedModelName", "provided_model_name", "model"),
        "an answer with its scores": ("trace",),
    }.items()
    for name in names
}
_KNOWN_NAMES = """id input output timestamp startTime endTime createdAt updatedAt projectId sessionId scores observations
    comments latency totalCost usageDetails usage inputTokens outputTokens providedModelName model bookmarked
    public"""
_KNOWN = frozenset(_KNOWN_NAMES.split())


def read(path: Path, scales: Mapping[str, Range] | None = None) -> Iterator[Record | Rejected]:
    """Reads the file twice: what a score of 1 means shows in its other values, unless ``scales`` says it. Raises BadFile."""
    known = scales_of(_all_scores(path), path, scales or {})
    return records(path, partial(record_of, scales=known), lists=_LISTS, columns=_READ_AS)


def _all_scores(path: Path) -> Iterator[Mapping[str, Any]]:
    for _, row in rows(path, _LISTS):
        if isinstance(row, dict):
            api_row = _with_api_names(row)
            yield from (score for score in (api_row, *_scores(api_row, row)) if isinstance(score, dict))


def record_of(row: dict[str, Any], where: str, scales: Mapping[str, Range]) -> list[Record]:
    api_row = _with_api_names(row)
    if api_row.get("output") is not None or api_row.get("input") is not None:
        if api_row.get("type") not in (None, *_ANSWERS):
            raise NotForUs(f"an observation that is not an answer: {api_row.get('type')!r:.30}")
        opinions = tuple(opinion for score in _scores(api_row, row) if (opinion := _feedback(score, scales)))
        return [replace(answer(api_row, where, opinions), columns={"name": KEPT})]
    if not api_row.get("name") or not {"value", "stringValue"} & api_row.keys():
        if {"traceId", "projectId", "timestamp", "startTime"} & api_row.keys():
            raise NotForUs("has neither input and output nor a score")
        raise Refused("is neither an answer (id, input, output) nor a score (traceId, name, value)")
    ids = tuple(filter(None, (fields.identity(api_row, "observationId"), fields.identity(api_row, "traceId"))))
    if not ids:
        raise NotForUs("a score of a session, not of an answer")
    return [ImportedRemark(where=where, external_ids=ids, feedback=(feedback(api_row, scales),))]


def _feedback(score: object, scales: Mapping[str, Range]) -> Any:
    """None for a score that says nothing here: the answer is worth having without it."""
    if not isinstance(score, dict):
        raise Refused("scores must be objects")
    try:
        return feedback(score, scales)
    except NotForUs:
        return None


def _with_api_names(row: dict[str, Any]) -> dict[str, Any]:
    """With the names of the API. A trace downloaded from its page stands beside its scores."""
    if isinstance(row.get("trace"), dict) and "id" in row["trace"]:
        row = {**row["trace"], "scores": row.get("scores")}
    return {re.sub(r"_([a-z])", lambda match: match[1].upper(), name): value for name, value in row.items()}


def _scores(api_row: Mapping[str, Any], row: Mapping[str, Any]) -> list[Any]:
    """Those of an answer: a list of scores, or columns with their names."""
    scores = api_row.get("scores")
    if isinstance(scores, list):
        return [_with_api_names(score) if isinstance(score, dict) else score for score in scores]
    columns = scores if isinstance(scores, dict) else row
    return list(column_scores({name: values for name, values in columns.items() if is_scores(name, values)}))


def answer(row: dict[str, Any], where: str, feedback: tuple[ImportedFeedback, ...]) -> ImportedTrace:
    """``row`` has the names of Langfuse's API. Raises Refused."""
    question, response = (
        fields.from_text(value) if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else value
        for value in (row.get("input"), row.get("output"))
    )
    talk, own_id = _talk(question, response), fields.required_text(row, "id") and fields.identity(row, "id")
    rest = {name: value for name, value in fields.others(row, _KNOWN).items() if not is_scores(name, value)}
    usage = row.get("usageDetails") or row.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    # In milliseconds; the latency is in seconds, but for old exports.
    start, end = fields.moment(row, "startTime"), fields.moment(row, "endTime")
    seconds = (end - start).total_seconds() if start and end else fields.number(row, "latency") or 0.0
    times = (fields.moment(row, name) for name in ("timestamp", "startTime", "createdAt"))
    return replace(
        chat.trace(where, talk, rest, feedback, external_id=own_id),
        session_id=fields.identity(row, "sessionId"),
        model_version=(fields.text(row, "providedModelName") or fields.text(row, "model"))[:200],
        tokens_in=fields.count(usage, "input") or fields.count(row, "inputTokens") or None,
        tokens_out=fields.count(usage, "output") or fields.count(row, "outputTokens") or None,
        cost=max(fields.number(row, "totalCost") or 0.0, 0.0) or None,
        duration_ms=round(seconds * 1000) if 0 < seconds * 1000 < MAX_WHOLE_NUMBER else None,
        occurred_at=next(filter(None, times), None),
    )


def _talk(prompt_input: Any, output: Any) -> chat.Talk:
    """Messages where they are messages, else the JSON itself as the text of one."""
    prompt_messages = prompt_input.get("messages") if isinstance(prompt_input, dict) else prompt_input
    answer_messages = output.get("messages") if isinstance(output, dict) and "messages" in output else output
    answer_messages = [answer_messages] if isinstance(answer_messages, dict) else answer_messages
    if isinstance(answer_messages, list):
        answer_messages = [
            {"role": "assistant", **message} if isinstance(message, dict) else message for message in answer_messages
        ]
    for prompt in (prompt_messages, [{"role": "user", "content": _text(prompt_input)}]):
        for response in (answer_messages, [{"role": "assistant", "content": _text(output)}]):
            if isinstance(prompt, list) and isinstance(response, list):
                try:
                    talk = chat.talk([*prompt, *response], "input and output")
                except Refused:
                    continue
                if talk.response or talk.tool_calls:
                    return talk
    raise Refused("has no output")


def _text(value: Any) -> str:
    return (value or "") if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


Range = tuple[float, float]
"""The worst value and the best."""
_RATING_NAMES = """feedback userfeedback humanfeedback rating userrating thumb thumbs thumbsup like liked helpful helpfulness
    correct correctness useful usefulness quality overall satisfaction"""
RATINGS = frozenset(_RATING_NAMES.split())
"""Names without case, spaces and signs."""
_SCALES: tuple[Range, ...] = ((0, 1), (-1, 1), (1, 5))
"""What values look like; the first that holds them all."""
_NO_NUMBERS = ("BOOLEAN", "CATEGORICAL", "TEXT")
_THUMBS = frozenset({"thumb", "thumbs", "thumbsup", "like", "liked"})
"""Names of scores whose best value is 1."""
_NO_SCORES = ("tags", "traceTags", "trace_tags", "toolCalls", "tool_calls", "toolCallNames", "tool_call_names")
"""Lists that a table has anyway."""
_SCALE = re.compile(r"(?:(?P<name>.+)=)?(?P<low>-?[0-9.]+)\.\.(?P<high>-?[0-9.]+)")


def is_scores(name: str, value: object) -> bool:
    """Is this a column of scores in an exported table of answers? It has the name of the score and a list of its values."""
    if name in _NO_SCORES:
        return False
    return isinstance(value, list) and bool(value) and all(isinstance(entry, (int, float, str)) for entry in value)


def column_scores(columns: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for name, values in columns.items():
        for index, value in enumerate(values):
            kind = {"stringValue": value, "dataType": "CATEGORICAL"} if isinstance(value, str) else {"value": value}
            yield {"name": name, **kind, "place": index}


def read_scales(scales: Iterable[str]) -> dict[str, Range]:
    """``1..5``, or of one score ``user-rating=1..5``: the range by the name, empty for all. Raises UsageError."""
    read: dict[str, Range] = {}
    for scale in scales:
        match = _SCALE.fullmatch(scale)
        low, high = (_amount(match["low"]), _amount(match["high"])) if match else (None, None)
        if match is None or low is None or high is None or low >= high:
            raise UsageError(
                f"--scale must be LOW..HIGH or NAME=LOW..HIGH, such as user-rating=1..5, not {scale!r:.60}"
            )
        read[plain(match["name"])] = low, high
    return read


def scales_of(scores: Iterable[Mapping[str, Any]], path: Path, given: Mapping[str, Range]) -> dict[str, Range]:
    """The worst and the best value of each score that is a rating: what was said, else what its values look like. Raises
    BadFile where all are 1, the best of 0 to 1 and the worst of 1 to 5."""
    scales: dict[str, Range] = {}
    for name, (seen, written) in _ranges(scores).items():
        scale = given.get(name) or given.get("")
        if scale is None and seen == (1, 1) and name not in _THUMBS:
            raise BadFile(
                path,
                f"all values of the score {written!r:.60} are 1: the best of 0 to 1, or the worst of 1 to 5? "
                f"say --scale {written!r:.60}=0..1 or --scale {written!r:.60}=1..5",
            )
        scale = scale or next((known for known in _SCALES if known[0] <= seen[0] and seen[1] <= known[1]), None)
        if scale is not None:
            scales[name] = scale
    return scales


def _ranges(scores: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Range, str]]:
    """The smallest and the largest value of each score that people may have given as a number, and how it is written."""
    value_ranges: dict[str, tuple[Range, str]] = {}
    for score in scores:
        name, amount = plain(score.get("name")), _amount(score.get("value"))
        if name in RATINGS and amount is not None and _kind(score) not in _NO_NUMBERS and not _is_by_model(score):
            (low, high), written = value_ranges.get(name, ((amount, amount), score["name"]))
            value_ranges[name] = (min(low, amount), max(high, amount)), written
    return value_ranges


def _amount(value: object) -> float | None:
    try:
        return fields.number({"": value}, "")
    except Refused:
        return None


def _kind(score: Mapping[str, Any]) -> str:
    return str(score.get("dataType") or "").upper()


def _is_by_model(score: Mapping[str, Any]) -> bool:
    return str(score.get("source") or "").upper() == "EVAL"


def feedback(score: Mapping[str, Any], scales: Mapping[str, Range]) -> ImportedFeedback:
    """``score`` has the names of Langfuse's API. Raises Refused."""
    name = fields.required_text(score, "name")
    kind, value = _kind(score), _amount(score.get("value"))
    word = "" if value is not None else score.get("value")
    word = str(word) if isinstance(word, bool) else word
    label = fields.text(score, "stringValue") or fields.text({"value": word}, "value")
    common: dict[str, Any] = {
        "tags": fields.tags(name, label if kind == "CATEGORICAL" else None),
        "notes": fields.notes(fields.text(score, "comment")),
        "rated_at": fields.moment(score, "timestamp") or fields.moment(score, "createdAt"),
    }
    if not _is_by_model(score) and plain(name) in RATINGS:
        scale, rating = _rating(kind, label, value, scales.get(plain(name)))
        if rating is not None:
            return ImportedFeedback(kind="rating", rater=_rater(score, name), scale=scale, value=rating, **common)
    if value is None or kind == "TEXT":
        raise NotForUs("a score without a number, and no word for good or bad")
    rater, metric = f"system:langfuse:{plain(name)}"[:MAX_RATER_LENGTH], name[:MAX_METRIC_LENGTH]
    return ImportedFeedback(kind="outcome", rater=rater, metric=metric, value=value, **common)


def _rating(
    kind: str, label: str, value: float | None, scale: Range | None
) -> tuple[Literal["thumb", "score", ""], float | None]:
    if (good := fields.word_thumb(label)) is not None:
        return "thumb", good
    if value is None or kind in ("CATEGORICAL", "TEXT"):
        return "", None
    if kind == "BOOLEAN" and value in (0, 1):
        return "thumb", value
    if scale is None:
        return "", None
    low, high = scale
    if not low <= value <= high:
        raise Refused(f"the value {value:g} is outside the scale {low:g}..{high:g}")
    return "score", (value - low) / (high - low)


def _rater(score: Mapping[str, Any], name: str) -> str:
    """One for each person and name, however it is spelled: who finds an answer correct and useless has said two things."""
    who = fields.text(score, "authorUserName") or fields.text(score, "authorUserId")
    return ":".join(filter(None, ("langfuse", who, plain(name), str(score.get("place") or ""))))[:MAX_RATER_LENGTH]


def plain(name: object) -> str:
    """Without case, spaces and signs; a name that is nothing else stays as it is."""
    return re.sub(r"[\W_]", "", name.lower()) or name if isinstance(name, str) else ""
