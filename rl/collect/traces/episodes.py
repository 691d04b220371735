"""Finished episodes as traces, so that people can rate them and every method can learn from them.

A trace has the first messages as its prompt and the last thing that was said as its response; ``details["episode"]`` has
the turns between. Texts of any size and kind come: they are cut and cleaned, and no episode is refused for its words."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from django.db import transaction

from rl.base.errors import UsageError
from rl.base.records import Message, ToolCall
from rl.collect.capture.cleaning import NAME, TEXT, Cleaner, finite, whole
from rl.collect.capture.troubles import Troubles
from rl.collect.traces.imported import ImportedTrace
from rl.collect.traces.rows import TraceBatch, chunks, take_turns
from rl.environments.episode import PlayedEpisode, Turn
from rl.models import Agent, Episode, Trace, TrainingRun

SOURCE = "episode"
CHUNK = 200
"""Episodes in one transaction; a longer one would keep people's ratings waiting."""
REPLAY = "replay"
_RECORDED = ("recorded", "solution", "tools")
"""Parts of a replayed task that are not stored with its episodes: the traces that it was made from have them."""
_CLEANER = Cleaner(None, Troubles())
_POSITION = ("split", "step", "task_id", "sample")
"""The place of an episode in its run."""
_position = attrgetter(*_POSITION)


def store_episodes(agent: Agent, episodes: Iterable[PlayedEpisode], run: TrainingRun | None = None) -> int:
    """How many were stored. The same episode again changes nothing; another one in its place in the run replaces it."""
    stored = 0
    for chunk in chunks(episodes, CHUNK):
        with transaction.atomic():
            stored += _store(agent, chunk, run)
    return stored


def _store(agent: Agent, episodes: Sequence[PlayedEpisode], run: TrainingRun | None) -> int:
    take_turns([agent.pk])
    pairs: dict[object, tuple[Episode, ImportedTrace]] = {}
    for episode in episodes:
        row = _row(episode, agent, run)
        answer = _answer(episode, row)
        pairs[_position(row) if run else answer.external_id] = row, answer  # of two in one position the later one
    batch = TraceBatch([(answer, agent) for _, answer in pairs.values()], SOURCE)
    for row, answer in pairs.values():
        taken = batch.decide(answer, agent)
        if taken.trace is None:
            raise UsageError(f"the episode of task {row.task_id} cannot be stored: {taken.how}")
        row.trace = taken.trace
    batch.save()
    rows = [row for row, _ in pairs.values()]
    _make_room(rows, run)
    Episode.objects.bulk_create(rows)
    return len(rows)


def _make_room(rows: Sequence[Episode], run: TrainingRun | None) -> None:
    Episode.objects.filter(trace__in=[row.trace_id for row in rows]).delete()
    if run is None:
        return
    positions = {_position(row) for row in rows}
    here = run.episodes.filter(step__in={row.step for row in rows}, task_id__in={row.task_id for row in rows})
    replaced = [row for row in here.only("trace", *_POSITION) if _position(row) in positions]
    Episode.objects.filter(pk__in=[row.pk for row in replaced]).delete()
    # People's words outlive what they are about, also those that are being written now.
    old = Trace.objects.filter(pk__in=[row.trace_id for row in replaced])
    list(old.select_for_update().order_by("pk").values_list("pk"))
    old.filter(feedback=None, compared=None, memberships=None).delete()


def _row(episode: PlayedEpisode, agent: Agent, run: TrainingRun | None) -> Episode:
    return Episode(
        agent=agent,
        run=run,
        split=episode.split,
        step=whole(episode.step),
        task_id=stored_task_id(episode.task_id),
        sample=whole(episode.sample),
        environment=_text(episode.environment, NAME),
        reward=finite(episode.reward),
        success=episode.success,
        turns=len(episode.turns),
        reason=_text(episode.reason),
    )


def _answer(episode: PlayedEpisode, row: Episode) -> ImportedTrace:
    prompt = tuple(Message(role=message["role"], content=_text(message["content"])) for message in episode.prompt)
    turns = _turns(episode.turns)
    tokens = [turn.tokens for turn in episode.turns if turn.tokens is not None]
    columns = {name: getattr(row, name) for name in ("task_id", "environment", "reward", "success", "reason")}
    task = {name: part for name, part in episode.task.items() if episode.environment != REPLAY or name not in _RECORDED}
    return ImportedTrace(
        where=row.task_id,
        external_id=_external_id(row, prompt, turns),
        prompt=prompt,
        response=turns[-1]["said"] if turns else "",
        session_id=f"run-{row.run_id}" if row.run_id else "",
        tool_calls=tuple(_tool_call(call) for call in episode.tool_calls),
        tokens_in=None if episode.tokens_in is None else whole(episode.tokens_in),
        tokens_out=whole(sum(tokens)) if tokens else None,
        llm_calls=len(turns),
        duration_ms=None if episode.seconds is None else whole(episode.seconds * 1000),
        details={"episode": {**columns, "task": _json(task), "turns": turns, "info": _json(episode.info)}},
    )


def _external_id(row: Episode, prompt: Sequence[Message], turns: Sequence[dict[str, Any]]) -> str:
    """The same words in the same place have the same one; other words are another answer, which people judge anew."""
    words = [[turn["said"], turn["observation"]] for turn in turns]
    identity = [row.run_id, None, _position(row), prompt, words]  # None: ids stay as they are
    return "episode-" + hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]


def _turns(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """``calls``: where the turn's calls are in the trace's ``tool_calls``."""
    rows, called = [], 0
    for turn in turns:
        calls = list(range(called, called := called + len(turn.calls)))
        rows.append({"said": _text(turn.text), "calls": calls, "observation": _text(turn.observation)})
    return rows


def _tool_call(call: ToolCall) -> ToolCall:
    return replace(
        call,
        tool_name=_text(call.tool_name, NAME),
        arguments=_json(call.arguments),
        result=_json(call.result),
        duration_ms=finite(call.duration_ms),
        error=_text(call.error),
        timestamp=_text(call.timestamp, NAME),
    )


def stored_task_id(task_id: str) -> str:
    """One that is too long keeps its beginning, and is still distinct from others."""
    task_id = _text(task_id)
    if len(task_id) <= NAME:
        return task_id
    return f"{task_id[: NAME - 17]}-{hashlib.sha256(task_id.encode()).hexdigest()[:16]}"


def _text(text: str, limit: int = TEXT) -> str:
    return _CLEANER.text(text, limit, "")


def _json(value: Any) -> Any:
    return _CLEANER.value(value, TEXT, "")
