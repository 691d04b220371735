"""Prompts alone: online GRPO, PPO."""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby, starmap
from operator import attrgetter
from typing import Any, NamedTuple

from django.db.models import QuerySet

from rl.base.errors import UsageError
from rl.base.messages import asks_nothing
from rl.dataset_builder.frozen.splitting import Split
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.plan.shortage import plural
from rl.dataset_builder.read.groups import NO_WORDS, PromptRows, Source, Tally
from rl.dataset_builder.read.prompt_file import PromptFile
from rl.dataset_builder.read.ratings import CHUNK, as_text, plan_for_all_rows
from rl.dataset_builder.read.runs import parse_details
from rl.dataset_builder.rows.judged import FILES
from rl.dataset_builder.wording import ask_agent
from rl.models import Agent, Trace, prompt_key
from rl.models.traces import may_be_used

TESTS = "tests"
"""In the details of an answer: what its code is run against."""


class _Row(NamedTuple):
    """One stored answer: columns of the query by their names. JSON comes as text."""

    id: Any
    prompt_key: str
    prompt_text: str
    details_text: str
    is_held_out: bool = False
    """By whoever gave it, whatever its words."""


class PromptsOnly:
    """Methods that generate answers while they train: every prompt of the agent once, whatever became of its answers.
    ``details`` are those of a stored answer to the prompt, for rewards to read: of the first with tests, else of the
    first that has any."""

    def __init__(self, agent: Agent, source: Source, options: DataOptions, tally: Tally) -> None:
        self._file = source if isinstance(source, PromptFile) else None
        if not (source.has_ids or self._file):
            raise UsageError(FILES.format("methods that generate answers"))
        self._agent, self._options, self._tally = agent, options, tally
        self._split = Split(agent, options.val_split)

    def prompts(self) -> Iterator[PromptRows]:
        plan_for_all_rows()
        seen: set[bytes] = set()  # an importer's own keys may stand for the same words
        rows = self._of_file() if self._file else starmap(_Row, _query(self._agent).iterator(chunk_size=CHUNK))
        for _, of_one_key in groupby(rows, key=attrgetter("prompt_key")):
            for split_key, row in self._in_other_words(of_one_key).items():
                self._tally.prompts_read += 1
                digest = bytes.fromhex(split_key)[:16]
                if digest not in seen:
                    seen.add(digest)
                    self._tally.prompts += 1
                    yield self._prompt_rows(split_key, row)

    def problem(self, train: int, held_out: int) -> str:
        if train + held_out < self._options.min_samples:
            missing = self._options.min_samples - train - held_out
            return (
                f"{self._agent.name} has {plural(train + held_out, 'prompt')}, and {self._options.min_samples:,} are "
                f"needed: send or import answers to {plural(missing, 'more prompt')}"
            )
        if not train:
            return (
                f"all {plural(held_out, 'prompt')} are held out for testing, none is left to train on: "
                "collect other prompts, or lower the held-out share"
            )
        return ""

    def _in_other_words(self, rows: Iterable[_Row]) -> dict[str, _Row]:
        """An importer's own key may stand for prompts in other words too: hash of the words to the answer that is used."""
        answers: dict[str, _Row] = {}
        text, split_key = "", ""
        for row in rows:
            if row.prompt_text != text:
                messages = json.loads(row.prompt_text)
                text, split_key = row.prompt_text, "" if asks_nothing(messages) else prompt_key(messages)
            if not split_key:
                self._tally.skipped[NO_WORDS] += 1
            elif split_key not in answers or _use(row) > _use(answers[split_key]):
                answers[split_key] = row
        return answers

    def _prompt_rows(self, split_key: str, row: _Row) -> PromptRows:
        training_row = {
            "prompt": [*ask_agent(self._agent, json.loads(row.prompt_text))],
            "prompt_key": row.prompt_key,
            "split_key": split_key,
            "details": parse_details(row.details_text),
            "feedback": [],
        }
        held_out = row.is_held_out or self._split.is_held_out(split_key)
        return PromptRows(held_out, [training_row], frozenset({str(row.id)} if row.id else ()))

    def _of_file(self) -> Iterator[_Row]:
        assert self._file  # noqa: S101  looked at before
        for held_out, messages, details in self._file.prompts():
            yield _Row(None, prompt_key(messages), json.dumps(messages), json.dumps(details), held_out)


def _query(agent: Agent) -> QuerySet[Trace, tuple[Any, ...]]:
    rows = Trace.objects.filter(may_be_used(), agent=agent).order_by("prompt_key", "id")
    return rows.annotate(prompt_text=as_text("prompt"), details_text=as_text("details")).values_list(*_Row._fields[:4])


def _use(row: _Row) -> int:
    details = parse_details(row.details_text)
    return 2 if details.get(TESTS) else 1 if details else 0
