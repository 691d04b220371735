"""What a run has to do, counted from its rows: of one that is planned, and of one that is over."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

from django.conf import settings

from rl.base.messages import characters
from rl.config import TrainingConfig, find_method
from rl.config.automatic import imitates
from rl.dataset_builder.accepted_answers import AcceptedAnswers, folds_of, tested_of
from rl.dataset_builder.plan.survey import answers_of
from rl.evaluation.guards.measure import PROMPTS
from rl.evaluation.measures.reward import MOST_PROMPTS
from rl.hardware import Speed, Workload
from rl.judge.labels import LEAST_RATERS, MOST_ROWS
from rl.lm.lengths import room_for_an_answer
from rl.models import Agent, TrainingRun
from rl.runs.choosing import RunOptions

SAMPLE = 200
"""Rows of a past run that are looked at for the length of their texts."""
_MESSAGE_TOKENS = 5
"""About how many tokens a chat template adds to each further message."""


@dataclass(slots=True)
class Texts:
    """Lengths in characters, gathered row by row."""

    prompts: array[int] = field(default_factory=lambda: array("q"))
    answers: array[int] = field(default_factory=lambda: array("q"))
    together: array[int] = field(default_factory=lambda: array("q"))
    """Each prompt with an answer."""
    messages: int = 0
    """In all prompts, less the first of each, and less a system prompt."""
    systems: int = 0
    """Prompts that begin with one."""
    raters: set[str] = field(default_factory=set)
    accepted: AcceptedAnswers = field(default_factory=AcceptedAnswers)

    def saw(self, row: Mapping[str, Any]) -> None:
        prompt = row["prompt"]
        length = characters(prompt)
        self.prompts.append(length)
        has_system = prompt[0]["role"] == "system"
        self.systems += has_system
        self.messages += max(0, len(prompt) - 1 - has_system)
        self.accepted.saw(row)
        self.raters.update(vote[0] for vote in row.get("votes", ()))
        for answer in answers_of(row):
            self.answers.append(characters(answer))
            self.together.append(length + self.answers[-1])

    def longest_of(self, count: int) -> float:
        """A prompt with an answer: the longest of so many that are drawn, on average."""
        ranked, total = sorted(self.together or self.prompts), len(self.together or self.prompts)
        chances = (((rank + 1) / total) ** count - (rank / total) ** count for rank in range(total))
        return sum(length * chance for length, chance in zip(ranked, chances, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A planned run, or one that is over, as far as it decides the work."""

    agent: Agent
    config: TrainingConfig
    method: str
    options: RunOptions
    rows: int
    heldout_rows: int
    heldout_prompts: int
    has_champion: bool
    """A version is in use beside the base model."""
    folds: int = 0
    """Parts of the tested prompts, where the run is cross-fitted."""
    tested: int = 0
    """Prompts of all parts together."""
    tested_share: float = 0.0
    """Share of the rows that is about tested prompts."""

    @property
    def trains_as(self) -> str:
        """The method that does the same work: what only imitates is SFT."""
        return "sft" if imitates(self.config, self.method, "free") else self.method

    def workload(self, texts: Texts, characters_per_token: float, speed: Speed) -> Workload:
        """``texts``: of its rows, one at least."""
        template = self._template_tokens(texts, speed)
        method = find_method(self.trains_as)
        generated = 0 if texts.answers else int(getattr(self.config, "max_new_tokens", 0))
        answer = fmean(texts.answers) / characters_per_token if texts.answers else generated
        sequences = self.config.rows_a_pass * method.work.sequences
        longest_answer = max(texts.answers, default=0) / characters_per_token
        asked = 0 if method.scores or method.rows.of_tasks else self._asked
        return Workload(
            rows=texts.accepted.imitated_of(self.rows) if method.imitates else self.rows,
            tokens=fmean(texts.prompts) / characters_per_token + template + answer,
            answer_tokens=answer,
            longest=texts.longest_of(sequences) / characters_per_token + template + generated,
            heldout_rows=self.heldout_rows,
            models=3 if self.has_champion else 2,
            asked_prompts=asked,
            guarded_prompts=min(PROMPTS, asked),
            judged_answers=self._judged_answers(asked),
            weighed_rows=self._weighed_rows(texts),
            asked_tokens=self._tokens_asked(longest_answer),
            folds=self.folds,
            tested_prompts=self.tested,
            tested_share=self.tested_share,
            exports=bool(self.options.export or self.options.deploy) and not method.scores,
        )

    def _template_tokens(self, texts: Texts, speed: Speed) -> float:
        of_system = texts.systems / len(texts.prompts)
        further = _MESSAGE_TOKENS * texts.messages / len(texts.prompts)
        return of_system * speed.system_tokens + (1 - of_system) * speed.prompt_tokens + further

    @property
    def _is_judged(self) -> bool:
        """By people's preferences: more prompts are asked than the guard rails look at."""
        return find_method(self.method).rows_with(self.config).measure == "preference"

    @property
    def _asked(self) -> int:
        """Prompts that every model answers."""
        if self.folds:
            return min(MOST_PROMPTS, self.tested)
        return min(settings.EVALUATION_PROMPTS if self._is_judged else PROMPTS, self.heldout_prompts)

    def _judged_answers(self, asked: int) -> int:
        """Those of two models, and those that people labelled."""
        method = find_method(self.trains_as)
        labelled = min(MOST_ROWS, self.rows + self.heldout_rows) * method.work.sequences
        return 2 * asked + labelled if asked and self._is_judged and not self.folds else 0

    def _weighed_rows(self, texts: Texts) -> int:
        """That a judge learns from before the training."""
        if find_method(self.trains_as).imitates:
            return 0
        weighs = getattr(self.config, "weigh_raters", False) and len(texts.raters) >= LEAST_RATERS
        weighs = weighs or getattr(self.config, "fresh_answers", 0)
        return min(MOST_ROWS, self.rows) if weighs else 0

    def _tokens_asked(self, longest_answer: float) -> int:
        most = int(getattr(self.config, "max_new_tokens", self.agent.response_length))
        stored = [round(longest_answer)] if longest_answer else []
        return room_for_an_answer(min(most, int(self.config.max_length) // 2), stored)


def past_run(run: TrainingRun, config: TrainingConfig) -> tuple[Run, Texts] | None:
    """A run that is over, with its first rows; None where it had none. Raises OSError for rows that were tidied up."""
    rows = run.training_set
    assert rows is not None  # noqa: S101  it succeeded
    assert run.version is not None  # noqa: S101
    texts, tested = Texts(), set(tested_of(rows))
    sample = _read(rows.directory / "train.jsonl", SAMPLE)
    for row in sample:
        texts.saw(row)
    if not texts.prompts:
        return None
    first = run.version.evaluations.filter(artifact=None).order_by("pk").first()
    heldout = _read(rows.directory / "heldout.jsonl", rows.heldout_rows)
    return Run(
        agent=run.agent,
        config=config,
        method=run.method,
        options=RunOptions.from_dict(run.options),
        rows=rows.train_rows,
        heldout_rows=rows.heldout_rows,
        heldout_prompts=len({row["prompt_key"] for row in heldout}),
        has_champion=bool(first and first.against_id),
        folds=folds_of(rows),
        tested=len(tested),
        tested_share=fmean(row.get("prompt_key") in tested for row in sample),
    ), texts


def _read(file: Path, most: int) -> list[dict[str, Any]]:
    if not most:
        return []
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in islice(lines, most)]
