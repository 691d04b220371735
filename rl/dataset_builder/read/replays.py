"""What an agent did with tools, as tasks of the environment ``replay``: its traces with tool calls, prompt by prompt."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet

from rl.base.errors import NotEnoughData, UsageError
from rl.base.messages import asks_nothing
from rl.base.records import Message
from rl.collect.capture.cleaning import MOST_CHARACTERS, MOST_ITEMS
from rl.collect.traces.episodes import REPLAY
from rl.collect.traces.records import tool_calls
from rl.dataset_builder.frozen.splitting import Split
from rl.dataset_builder.plan.shortage import plural
from rl.dataset_builder.read.groups import Tally
from rl.dataset_builder.read.ratings import CHUNK, DatabaseSource, as_text, plan_for_all_rows
from rl.dataset_builder.read.runs import declared_tools, parse_details
from rl.dataset_builder.rows.tasks import TaskSource
from rl.environments import environment_class
from rl.environments.settings import EnvironmentSettings, option_types
from rl.environments.tools.recorded import key_of, merge_traces, schemas_of
from rl.models import Agent, Episode, Trace, prompt_key

MOST_TRACES = 500
"""Most traces that are read of one prompt, the newest."""


class RecordedTrace(NamedTuple):
    """A stored trace with the episode that it tells of, if there is one: columns of the query by their names. JSON comes as
    text."""

    prompt_key: str
    prompt_text: str
    calls: str
    response: str
    details_text: str
    occurred_at: datetime
    created_at: datetime
    episode__environment: str | None
    """None: no episode."""
    episode__task_id: str | None
    episode__success: bool | None
    episode__split: str | None
    episode__run_id: int | None

    @property
    def messages(self) -> list[Message]:
        messages: list[Message] = json.loads(self.prompt_text)
        return messages

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """As a task for replays has them."""
        names = ("tool_name", "arguments", "result", "success", "error")
        return [{name: getattr(call, name) for name in names} for call in tool_calls(json.loads(self.calls))]

    @property
    def facts(self) -> dict[str, Any]:
        return parse_details(self.details_text)


def traces_with_calls(agent: Agent) -> Iterator[tuple[str, list[RecordedTrace]]]:
    """The hash of a prompt's words, and the traces in the order in which they were recorded. Those of replays tell nothing
    of the world and are left out. One query, whose rows come through a cursor."""
    plan_for_all_rows()
    rows = map(RecordedTrace._make, _query(agent).iterator(chunk_size=CHUNK))
    for _, of_one_key in groupby(rows, key=attrgetter("prompt_key")):
        prompts: dict[str, list[RecordedTrace]] = {}  # an importer's own key may stand for prompts in other words
        newest = heapq.nlargest(MOST_TRACES, of_one_key, key=attrgetter("occurred_at", "created_at"))
        for trace in reversed(newest):
            prompts.setdefault(trace.prompt_text, []).append(trace)
        yield from ((prompt_key(traces[0].messages), traces) for traces in prompts.values())


def _query(agent: Agent) -> QuerySet[Trace, tuple[Any, ...]]:
    """Those of one prompt come in any order: to sort them all takes longer."""
    of_the_world = Q(episode__isnull=True) | ~Q(episode__environment=REPLAY)
    return (
        Trace.objects.filter(of_the_world, agent=agent)
        .exclude(tool_calls=[])
        .order_by("prompt_key")
        .annotate(prompt_text=as_text("prompt"), calls=as_text("tool_calls"), details_text=as_text("details"))
        .values_list(*RecordedTrace._fields)
    )


MOST_PROMPTS = 10_000
MOST_CALLS = 1000
"""Most tool calls of one prompt that are played back."""
NO_CALLS = "prompt: its calls of tools have arguments that cannot be read"
UNJUDGED = "prompt: no episode, liked answer, correction or won comparison tells what is right"
GONE = "prompt: the environment of its episodes cannot be made any more"
NOT_WHOLE = "prompt: the task of its episodes was too large to be stored whole"
Verdict = dict[str, Any]
"""Fields of a task for replays."""


class Replays(NamedTuple):
    tasks: list[dict[str, Any]]
    held_out: list[dict[str, Any]]
    skipped: Counter[str]
    """Reason to how many prompts."""


def replay_source(agent: Agent, settings: EnvironmentSettings, val_split: float) -> TaskSource:
    """Raises NotEnoughData where there is nothing to train on."""
    replays = replay_tasks(agent, val_split)
    if not replays.tasks:
        raise NotEnoughData(_shortage(agent, replays))
    return TaskSource(settings, replays.tasks, replays.held_out, name="replay", left_out=replays.skipped)


def replay_tasks(agent: Agent, val_split: float = 0.2, limit: int = MOST_PROMPTS) -> Replays:
    """A task for each of ``limit`` prompts to which there are traces with calls of tools, by the hash of their words, with
    the calls of all of them. Prompts that an earlier training held out stay held out, whatever the share."""
    replays, verdicts, split = Replays([], [], Counter()), Verdicts(agent), Split(agent, val_split)
    for words, traces in islice(traces_with_calls(agent), limit):
        task = _task(words, traces, verdicts)
        if isinstance(task, str):
            replays.skipped[task] += 1
        elif any(trace.episode__split == Episode.Split.EVAL for trace in traces) or split.is_held_out(words):
            replays.held_out.append(task)
        else:
            replays.tasks.append(task)
    return replays


def _task(words: str, traces: Sequence[RecordedTrace], verdicts: Verdicts) -> dict[str, Any] | str:
    """Or why there is none."""
    verdict = verdicts.of(words, traces)
    if isinstance(verdict, str):
        return verdict
    recorded = merge_traces([trace.tool_calls for trace in traces])[-MOST_CALLS:]
    if not recorded:
        return NO_CALLS
    tools = verdict.pop("tools", [])
    names = {tool["function"]["name"] for tool in tools}
    others = [call for call in recorded if call["tool_name"] not in names]
    return {
        "task_id": verdict.pop("task_id", "") + words[:12],
        "prompt": traces[0].messages,
        "tools": [*tools, *schemas_of(others)],
        "recorded": recorded,
        **verdict,
    }


def _shortage(agent: Agent, replays: Replays) -> str:
    if replays.held_out:
        return (
            f"{plural(len(replays.held_out), 'prompt')} of {agent.name} can be replayed, and held out: more are needed"
        )
    if replays.skipped:
        reasons = "; ".join(f"{count} × {reason}" for reason, count in replays.skipped.most_common())
        return f"no prompt of {agent.name} can be replayed: {reasons}"
    return (
        f"{agent.name} has no traces with calls of tools to be replayed: train it in an environment, record or import what "
        "it does, or name a folder of replay tasks by --dataset-dir"
    )


class Verdicts:
    def __init__(self, agent: Agent) -> None:
        self._accepted = accepted_answers(agent)
        runs = agent.runs.filter(config__has_key="environment").values_list("pk", "config__environment")
        self._settings = {run: settings for run, settings in runs if isinstance(settings, dict)}
        self._tools: dict[str, list[dict[str, Any]]] = {}

    def of(self, words: str, traces: Sequence[RecordedTrace]) -> Verdict | str:
        """The environment judges where there is an episode, else what people said; or why nobody can. ``traces``: of the
        prompt with this hash, the oldest first."""
        episodes = [trace for trace in traces if trace.episode__environment]
        verdict = self._of_environment(episodes) if episodes else UNJUDGED
        if isinstance(verdict, str) and words in self._accepted:
            return _of_people(self._accepted[words], traces)
        return verdict

    def _of_environment(self, episodes: Sequence[RecordedTrace]) -> Verdict | str:
        newest = episodes[-1]
        name, episode = str(newest.episode__environment), newest.facts.get("episode") or {}
        task, options = episode.get("task"), self._options(newest)
        try:
            kind = environment_class(name)
            if not kind.judges_alone:
                return UNJUDGED
            tools = self._schemas(name, options)
        except (UsageError, TypeError):
            return GONE
        if not _is_whole(task) or any(kind.tasks.problems(task)):
            return NOT_WHOLE
        solved = (script for trace in episodes if trace.episode__success and (script := _turns(trace)))
        solution = min(solved, key=len, default=None)
        fields = {"environment": name, "task": task, "options": options, "tools": tools, "solution": solution}
        return {"task_id": f"{newest.episode__task_id}-", **{name: value for name, value in fields.items() if value}}

    def _options(self, trace: RecordedTrace) -> dict[str, Any]:
        """Those by which the environment judges. Of those that the replay has too, such as the number of turns, its own
        count."""
        settings = self._settings.get(trace.episode__run_id or 0, {})
        options = settings.get("options") if settings.get("type") == trace.episode__environment else None
        own = option_types(environment_class(REPLAY))
        return {name: value for name, value in (options or {}).items() if name not in own}

    def _schemas(self, name: str, options: Mapping[str, Any]) -> list[dict[str, Any]]:
        key = json.dumps([name, options], sort_keys=True)
        if key not in self._tools:
            self._tools[key] = environment_class(name)(**options).tools.schemas
        return self._tools[key]


def accepted_answers(agent: Agent) -> dict[str, list[str]]:
    """The hash of a prompt's words to the answers that more people like than not, or wrote, or preferred to another; not
    those that more people dislike."""
    answers: dict[str, list[str]] = {}
    for group in DatabaseSource(agent, runs=False).groups(Tally()):
        if asks_nothing(group.prompt):
            continue
        disliked = {answer.response for answer in group.answers if answer.verdict == "down"}
        liked = [answer.response for answer in group.answers if answer.verdict == "up"]
        texts = dict.fromkeys([*liked, *(direct.chosen for direct in group.direct)])
        if accepted := [text for text in texts if text.strip() and text not in disliked]:
            answers.setdefault(group.split_key, []).extend(accepted)
    return answers


def _of_people(accepted: Sequence[str], traces: Sequence[RecordedTrace]) -> Verdict:
    known = ([*([call] for call in trace.tool_calls), trace.response] for trace in traces if trace.response in accepted)
    solution = min((script for script in known if _is_readable(script)), key=len, default=None)
    tools = next(
        (offered for trace in reversed(traces) if (offered := list(declared_tools(trace.facts.get("tools"))))), None
    )
    verdict = {"accepted": list(accepted), "tools": tools, "solution": solution}
    return {name: value for name, value in verdict.items() if value}


def _turns(trace: RecordedTrace) -> list[Any] | None:
    """An episode's calls turn by turn, and last what it answered; None where a call cannot be read."""
    calls = trace.tool_calls
    turns = (trace.facts.get("episode") or {}).get("turns") or []
    script = [[calls[number] for number in turn["calls"]] for turn in turns if turn["calls"]]
    solution = [*script, trace.response]
    return solution if _is_readable(solution) else None


def _is_readable(script: Iterable[Any]) -> bool:
    *turns, answer = script
    return bool(answer.strip()) and all(key_of(call) for calls in turns for call in calls)


def _is_whole(task: Any) -> bool:
    """Whether nothing was left out when it was stored: then it is smaller than what is kept at most."""
    characters, items = _size(task)
    return characters < MOST_CHARACTERS and items < MOST_ITEMS


def _size(value: Any) -> tuple[int, int]:
    """Characters, and values of any kind."""
    if isinstance(value, str):
        return len(value), 1
    parts: list[Any] = (
        [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    )
    sizes = [_size(part) for part in parts]
    return sum(size for size, _ in sizes), 1 + sum(count for _, count in sizes)
