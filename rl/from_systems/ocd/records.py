"""OCD's decision records (camelCase): a state, the action that an agent chose in it, and what came of it later.

A decision is a trace: the state as canonical JSON is the user's message, the action as canonical JSON is the response.
What people and systems said of it becomes feedback; every other field stays as it is in ``details["decision"]``. A decision
with ``isTrainingData`` false is never trained on, one with ``isValidationData`` true is held out for testing.

Its files have such records, or the rows that it exports for training: ``{"prompt", "completion": JSON text of the action,
"reward", "confidence", "metadata": {decisionId}}``, which have lost state and agent. The prompt is what the agent was told,
or that with marks of who speaks. A row of its chats is ``{"messages": [system, user, assistant], "reward", "metadata":
{decisionId, agentType}}``."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rl.base.errors import UsageError
from rl.base.records import Message
from rl.base.slugs import check_name, check_slug
from rl.collect.importers import chat, rows
from rl.collect.importers.fields import Refused, obj, others, required_text
from rl.collect.storable import unstorable
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace, Rejected
from rl.data_formatter.runs import messages_of
from rl.from_systems.ocd.formulas import RATINGS
from rl.models.traces import HELD_OUT, NEVER, SPLIT
from rl.rewards.decision import RATER

LONGEST_ID, LONGEST_USER, LONGEST_METRIC = 200, 190, 100
MOST_METRICS = 100
"""Metrics of one decision at a time: each may become an event."""
_READ = ("id", "agentType", "state", "action", "userFeedback", "userCorrection", "feedbackAt", "outcomeObservedAt")
"""Fields that have a place of their own in a trace or its feedback."""
_IDENTITY = ("agentType", "state", "action", "itemId", "opusId", "userId", "modelVersion", "createdAt")
EDITED = "editedContent"
"""The key of a correction by OCD's pages: the text that the person made of the action's."""
_TEXTS = ("itemId", "opusId", "userId", "modelVersion", "reasoning")


def read_decision(mapping: object, where: str) -> ImportedTrace | Rejected:
    """One record. Its external id is ``id`` or ``decisionId``, else a hash of what never changes in it."""
    try:
        if not isinstance(mapping, Mapping):
            raise UsageError("must be a JSON object")
        if problem := unstorable(mapping):
            raise UsageError(problem)
        return _decision(mapping, where)
    except UsageError as error:
        return Rejected(where, str(error))


def canonical(value: object) -> str:
    """The same JSON value is always the same text."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def user_feedback(mapping: Mapping[str, Any], action: object) -> tuple[ImportedFeedback, ...]:
    """The rating of ``userFeedback``, and ``userCorrection`` as a correction to the whole action; one that changes nothing
    of it corrects nothing. Raises UsageError."""
    rater, rated_at = rater_of(mapping.get("userId")), _moment(mapping, "feedbackAt")
    feedback, judgement = [], mapping.get("userFeedback")
    if judgement not in (None, ""):
        word = judgement.upper() if isinstance(judgement, str) else ""
        if word not in RATINGS:
            raise UsageError(f"userFeedback must be one of {', '.join(RATINGS)}")
        feedback.append(
            ImportedFeedback(
                kind="rating", rater=rater, scale="score", value=RATINGS[word], tags=(word,), rated_at=rated_at
            )
        )
    corrected = corrected_action(mapping.get("userCorrection"), action)
    if canonical(corrected) != canonical(action):
        feedback.append(ImportedFeedback(kind="correction", rater=rater, text=canonical(corrected), rated_at=rated_at))
    return tuple(feedback)


def corrected_action(correction: object, action: object) -> Any:
    """The whole action as it should have been: a correction that is an object names only the fields that change."""
    if correction is None:
        return action
    if not isinstance(correction, Mapping) or not isinstance(action, Mapping):
        return correction
    # the text that is edited: of RETRIEVER, of STORER
    edited = next((name for name in ("generatedContent", "suggestedContent") if name in action), None)
    if EDITED in correction and EDITED not in action and edited:
        correction = {edited if name == EDITED else name: value for name, value in correction.items()}
    return {**action, **correction}


def outcomes(mapping: Mapping[str, Any]) -> tuple[ImportedFeedback, ...]:
    """One for each number or truth value in ``outcomeMetrics``; a time ``blockedAt`` says that it ``wasBlocked``. Raises
    UsageError."""
    observed_at, metrics = _moment(mapping, "outcomeObservedAt"), _metrics(mapping)
    measured = [(name, value) for name, value in metrics.items() if isinstance(value, (bool, int, float))]
    for name, _ in measured:
        if not name.strip() or len(name) > LONGEST_METRIC:
            raise UsageError(f"outcomeMetrics: a name has 1 to {LONGEST_METRIC} characters, not {name[:120]!r}")
    if isinstance(metrics.get("blockedAt"), str) and metrics["blockedAt"] and "wasBlocked" not in metrics:
        measured.append(("wasBlocked", 1.0))
    about: dict[str, Any] = {"kind": "outcome", "rater": "system:decision", "rated_at": observed_at}
    return tuple(ImportedFeedback(metric=name.strip(), value=float(value), **about) for name, value in measured)


def other_metrics(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """What ``outcomeMetrics`` holds beside numbers and truth values: kept, but not an outcome."""
    return {name: value for name, value in _metrics(mapping).items() if not isinstance(value, (bool, int, float))}


def rater_of(user: object) -> str:
    """Apart from the names of the people who sign in here, whatever a log calls its users. Raises UsageError."""
    if user is None or user == "":
        return RATER
    if not isinstance(user, str) or len(user) > LONGEST_USER:
        raise UsageError(f"userId must be text of at most {LONGEST_USER} characters")
    return f"{RATER}:{check_name(user, 'userId')}"


def _decision(record: Mapping[str, Any], where: str) -> ImportedTrace:
    state, action = record.get("state"), record.get("action")
    if state is None or action is None:
        raise UsageError(f"{'state' if state is None else 'action'} is missing")
    _check_types(record)
    rest = {name: value for name, value in record.items() if name not in _READ and value is not None}
    if metrics := other_metrics(record):
        rest["outcomeMetrics"] = metrics
    else:
        rest.pop("outcomeMetrics", None)
    agent = record.get("agentType") or ""
    return ImportedTrace(
        where=where,
        external_id=_external_id(record),
        prompt=(Message(role="user", content=canonical(state)),),
        response=canonical(action),
        agent=check_slug(agent, "agentType") if agent else "",
        model_version=record.get("modelVersion") or "",
        state=state,
        action=action,
        details={"decision": rest, **_split(record)},
        occurred_at=_moment(record, "createdAt"),
        feedback=(*user_feedback(record, action), *outcomes(record)),
    )


def _check_types(record: Mapping[str, Any]) -> None:
    for name in ("reward", "confidence"):
        value = record.get(name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if value is not None and not is_number:
            raise UsageError(f"{name} must be a number")
    if not 0 <= (record.get("confidence") or 0) <= 1:
        raise UsageError("confidence must be between 0 and 1")
    components = record.get("rewardComponents")
    if components is not None and not isinstance(components, Mapping):
        raise UsageError("rewardComponents must be an object")
    for name in _TEXTS:
        if not isinstance(record.get(name) or "", str):
            raise UsageError(f"{name} must be text")


def _external_id(record: Mapping[str, Any]) -> str:
    own_id = record.get("id") or record.get("decisionId")
    if own_id:
        if not isinstance(own_id, str) or len(own_id) > LONGEST_ID:
            raise UsageError(f"id must be text of at most {LONGEST_ID} characters")
        return own_id
    identity = canonical([record.get(name) for name in _IDENTITY])
    return "decision-" + hashlib.sha256(identity.encode()).hexdigest()


def _split(record: Mapping[str, Any]) -> dict[str, str]:
    """Where it may be used, in the core's words. Raises UsageError."""
    flags = {name: record.get(name) for name in ("isTrainingData", "isValidationData")}
    if wrong := [name for name, value in flags.items() if not isinstance(value, bool | None)]:
        raise UsageError(f"{wrong[0]} must be true or false")
    if flags["isValidationData"]:
        return {SPLIT: HELD_OUT}
    return {SPLIT: NEVER} if flags["isTrainingData"] is False else {}


def _metrics(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    metrics = mapping.get("outcomeMetrics")
    if metrics is not None and not isinstance(metrics, Mapping):
        raise UsageError("outcomeMetrics must be an object of metric names and numbers")
    if metrics and len(metrics) > MOST_METRICS:
        raise UsageError(f"outcomeMetrics has {len(metrics)} metrics; a decision takes {MOST_METRICS} at a time")
    return metrics or {}


def _moment(record: Mapping[str, Any], name: str) -> datetime | None:
    """In UTC; a time without a zone is taken as UTC."""
    value = record.get(name)
    if value is None or value == "":
        return None
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{name} must be a time in ISO 8601, such as 2026-02-01T12:00:00Z") from None


SUFFIXES = rows.SUFFIXES
_READ_AS = {
    "state": "the question",
    "prompt": "the question",
    "messages": "the chat",
    "action": "the answer",
    "completion": "the answer",
    "metadata": "the decision",
    "id": "the id of the answer",
    "agentType": "the agent",
    "modelVersion": "the model",
    "createdAt": "the time",
    "userFeedback": "a rating",
    "userId": "the rater",
    "feedbackAt": "the time of the rating",
    "userCorrection": "a correction",
    "outcomeMetrics": "outcomes",
    "outcomeObservedAt": "the time of the outcomes",
    "reward": "the reward",
}


def read(path: Path) -> Iterator[rows.Record | Rejected]:
    """Raises BadFile."""
    return rows.records(path, _read_row, lists=("decisions", "data"), columns=_READ_AS)


def _read_row(row: dict[str, Any], where: str) -> list[ImportedTrace]:
    if "completion" in row and "state" not in row:
        prompt, text = required_text(row, "prompt"), required_text(row, "completion")
        record = {**others(row, ("prompt", "completion", "metadata")), **obj(row, "metadata")}
        record |= {"state": prompt, "action": _action(text, "completion")}
        return [replace(_read(record, where), prompt=tuple(messages_of(prompt)), response=text, state=None)]
    if "messages" in row and "state" not in row:
        return [_read_chat(row, where)]
    return [_read(row, where)]


def _read(mapping: Mapping[str, Any], where: str) -> ImportedTrace:
    decision = read_decision(mapping, where)
    if isinstance(decision, Rejected):
        raise Refused(decision.reason)
    return decision


def _read_chat(row: dict[str, Any], where: str) -> ImportedTrace:
    talk, metadata = chat.talk(row["messages"]), obj(row, "metadata")
    record = {**others(row, ("messages", "reward", "metadata")), **metadata, "state": row["messages"]}
    record["action"] = _action(talk.response, "the answer")
    if row.get("reward") or metadata.get("rewardComputedAt"):  # OCD writes 0 where nobody has computed one
        record["reward"] = row.get("reward")
    return replace(_read(record, where), prompt=talk.prompt, response=talk.response, state=None)


def _action(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Refused(f"{name} must be the JSON text of the action") from None
