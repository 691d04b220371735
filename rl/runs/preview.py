"""Rows as they would be trained, before there is a run; torch is not imported.

A process of its own writes them as the base model's tokenizer and chat template do (``rl.lm.shown_rows``): a template is a
program that came with somebody's model, and the libraries are large. Where the model is not on this machine, the rows are
shown as text.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from rl.base.errors import NotEnoughData, UsageError
from rl.base.manner import Manner
from rl.base.messages import Message
from rl.config import TrainingConfig, find_method, find_rows
from rl.config.methods import Column
from rl.dataset_builder.first_row import METHOD, FirstRow
from rl.dataset_builder.plan.survey import answers_of
from rl.lm.base_models import local_folder
from rl.models import Agent
from rl.runs.child_environment import library_variables
from rl.runs.data_check import checked_survey, context_of
from rl.runs.run import RunOptions
from rl.runs.settling import thinks_before

SHOWN: Final = 20
"""Rows of a page."""
MOST_BYTES: Final = 2**22
"""The size of the JSON of the rows that are shown; the rows after those are counted only."""
SECONDS: Final = 60.0
_START: Final = "import sys; sys.modules['torch'] = None; from rl.lm.shown_rows import main; main()"
_FILES: Final = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
_MOST_WORDS: Final = 4_000
"""Characters of a text that are shown where its tokens cannot be."""
_KINDS, _BEGINNING, _LONGEST = 100, 200, 2**16
"""Kinds of chats that are tried with the template; characters of each message of such a chat, and of its JSON."""
_SIMPLE: Final = re.compile(r"s?u(\|a)+")
"""One question and its answers: no template that can write an answer refuses them."""
_REPEATED: Final = re.compile(r"(ua){3,}")


@dataclass(slots=True)
class ChatKinds:
    """Rows that go by: the first ones, and how many there are of each kind of chat, since what a template refuses is a kind:
    roles in an order, tools, calls, blanks."""

    kind: str
    """The kind of the rows, as ``find_rows`` has it."""
    manner: Manner
    """How the run asks."""
    shown: int = 0
    """How many of the first rows are kept."""
    first: list[Mapping[str, Any]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _bytes: int = 0

    def saw(self, row: Mapping[str, Any]) -> None:
        if len(self.first) < self.shown and self._bytes < MOST_BYTES:
            own = with_answers(self.kind, row)
            self._bytes += len(json.dumps(own))
            self.first += [own] if self._bytes < MOST_BYTES else []
        chats, tools = [row["prompt"], *answers_of(row)], row.get("tools")
        kind = "|".join(_REPEATED.sub("uaua", "".join(map(_mark, chat))) for chat in chats)
        kind += "+tools" if tools else ""
        self.counts[kind] += 1
        if self.counts[kind] == 1 and len(self.examples) < _KINDS and not _SIMPLE.fullmatch(kind):
            prompt, *answers = [
                [{**message, "content": message["content"][:_BEGINNING]} for message in chat] for chat in chats
            ]
            example = {"prompt": prompt, "answers": dict(enumerate(answers)), "tools": tools}
            if len(json.dumps(example)) < _LONGEST:
                self.examples[kind] = example

    def count_refused(self, source: Path) -> Counter[str]:
        """How many of them the chat template would refuse, by its reason; none where the model is not on this machine.
        Raises NotEnoughData where it would refuse them all."""
        refused: Counter[str] = Counter()
        if self.examples and (files := _files(source)):
            times = tuple(file.stat().st_mtime_ns for file in files)
            reasons = _reasons(str(source), self.manner, times, json.dumps(list(self.examples.values())))
            for kind, reason in zip(self.examples, reasons, strict=True):
                refused[reason] += self.counts[kind] if reason else 0
        if (+refused).total() == self.counts.total() > 0:
            raise NotEnoughData(f"no row can be used: {next(iter(+refused))}")
        return +refused


def _mark(message: Message) -> str:
    calls = len(message.get("tool_calls") or ())
    return f"{message['role'][0]}{'' if message['content'].strip() else '_'}{calls or ''}"


def _files(source: Path) -> list[Path]:
    """The files of the tokenizer; none where the model, or the package that reads them, is not on this machine."""
    return [source / name for name in _FILES if find_spec("transformers") and (source / name).is_file()]


@lru_cache(maxsize=16)
def _reasons(source: str, manner: Manner, times: tuple[int, ...], examples: str) -> list[str]:  # noqa: ARG001  a part of the key
    """Why the template refuses each chat; empty where it writes it. ``times``: of the files, which may change."""
    return [row.get("reason", "") for row in _look(source, json.loads(examples), None, manner)]


@dataclass(frozen=True, slots=True)
class Preview:
    rows: list[dict[str, Any]] = field(default_factory=list)
    """As ``rl.lm.shown_rows.describe`` has them; ``prompt_tokens`` is None in text."""
    left_out: list[dict[str, Any]] = field(default_factory=list)
    """The first rows that the chat template or a limit of length would not let through."""
    total: int = 0
    """Rows to train on."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """What becomes no row, and rows that the chat template would refuse, by reason."""
    problem: str = ""
    """Why the run would end for its data; empty: it would not."""

    @property
    def is_text(self) -> bool:
        return any(row["prompt_tokens"] is None for row in self.rows)


def preview(agent: Agent, config: TrainingConfig, options: RunOptions, method: str, count: int = SHOWN) -> Preview:
    """The first ``count`` rows of a run; none of a method that makes its answers itself. Reads all of the agent's ratings.
    Raises UsageError, for a tokenizer that cannot be used too."""
    rows = find_method(method).rows_with(config)
    if not rows.has_answers:
        return Preview()
    source = local_folder(options.base_model_of(agent))
    manner = config.manner._replace(thinks=thinks_before(agent, config.thinks))
    kinds, counts, problem = ChatKinds(rows.name, manner, count), Counter[str](), ""
    try:
        counts += checked_survey(agent, config, options, method, source, kinds.saw).skipped
        counts += kinds.count_refused(source)
    except NotEnoughData as error:
        problem = str(error)
    longest = min(int(config.max_length), context_of(source))
    shown = show(source, kinds.first, longest, manner)
    return Preview(*shown, kinds.counts.total(), counts, problem)


def preview_first(first: FirstRow) -> Preview:
    """Raises UsageError for a tokenizer that cannot be used."""
    source = None
    with suppress(UsageError):  # what is no base model is not here
        source = local_folder(first.agent.base_model)
    rows = [with_answers(METHOD, row) for row in first.rows]
    manner = Manner(thinks_before(first.agent, first.agent.thinks))
    return Preview(*show(source, rows, None, manner), counts=first.skipped)


def with_answers(kind: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its ``answers`` by name, and with nothing that is not shown."""
    columns = find_rows(kind)
    answers = {name: row[name] for name in columns.names(Column.MESSAGES) if row.get(name)}
    for name in columns.names(Column.ANSWERS):
        answers |= {f"{name}[{number}]": answer for number, answer in enumerate(row[name])}
    left_out = (*columns.names(Column.MESSAGES, Column.ANSWERS), "votes", "split_key")
    return {**{name: value for name, value in row.items() if name not in left_out}, "answers": answers}


def show(
    source: Path | None, rows: Sequence[Mapping[str, Any]], most_tokens: int | None, manner: Manner
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of ``with_answers`` that are learned, and those that are left out. ``source``: the folder of a base model; where
    there is none, they are texts. Raises UsageError."""
    if not (rows and source and _files(source)):
        return [_as_text(row, manner) for row in rows], []
    looks = _look(str(source), rows, most_tokens, manner)
    return [row for row in looks if "reason" not in row], [row for row in looks if "reason" in row]


def _as_text(row: Mapping[str, Any], manner: Manner) -> dict[str, Any]:
    answers = [
        {
            "name": name,
            "tokens": None,
            "pieces": [
                (_words(message, manner.thinks)[:_MOST_WORDS], message["role"] == "assistant") for message in answer
            ],
        }
        for name, answer in row["answers"].items()
    ]
    prompt = "\n".join(f"{message['role']}: {_words(message, manner.thinks)}" for message in manner.tell(row["prompt"]))
    return {**row, "prompt": prompt[-_MOST_WORDS:], "prompt_tokens": None, "answers": answers}


def _words(message: Message, thinks: bool) -> str:
    calls = [json.dumps(call["function"], ensure_ascii=False) for call in message.get("tool_calls") or []]
    thought = message.get("reasoning_content") if thinks else None
    return "\n".join(filter(None, (thought, message["content"], *calls)))


def _look(
    source: str, rows: Sequence[Mapping[str, Any]], most_tokens: int | None, manner: Manner
) -> list[dict[str, Any]]:
    """Raises UsageError."""
    request = json.dumps({"source": source, "manner": manner, "most_tokens": most_tokens, "rows": rows}).encode()
    variables = {**library_variables(), "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    command, folder = [sys.executable, "-c", _START], settings.BASE_DIR
    try:
        done = subprocess.run(command, input=request, capture_output=True, cwd=folder, env=variables, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise UsageError(f"the tokenizer of {source} takes more than {SECONDS:.0f} seconds to write the rows") from None
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines() or [f"it ended with code {done.returncode}"]
        raise UsageError(f"the rows cannot be shown: {words[-1]:.300}")
    return list(json.loads(done.stdout))
