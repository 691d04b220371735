"""A package of your own may bring such things; its pyproject.toml names each."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any

from rl.base.records import TraceRecord
from rl.collect.importers.fields import required_text
from rl.collect.importers.rows import SUFFIXES, records  # noqa: F401  SUFFIXES: what is looked for in folders
from rl.collect.traces.imported import ImportedTrace
from rl.config import METHODS
from rl.config.guard_limits import GuardRail
from rl.config.method_configs import ImitationConfig
from rl.dataset_builder.exporting import ExportedRow, RowFormat
from rl.rewards import BaseReward, RewardResult

# --- an importer: lines of JSON such as {"question": "…", "answer": "…"} ------------------------------------------------


def _note(row: dict[str, Any], where: str) -> list[ImportedTrace]:
    question, answer = required_text(row, "question"), required_text(row, "answer")
    prompt = ({"role": "user", "content": question},)
    return [ImportedTrace(where=where, external_id=f"{question} {answer}"[:200], prompt=prompt, response=answer)]


read = partial(records, parse=_note, columns={"question": "what was asked", "answer": "what was said"})


# --- a form of exported rows: questions alone ----------------------------------------------------------------------------


class Questions(RowFormat):
    """The questions that people asked, one a row."""

    columns = {"question": "text"}

    def rows(self) -> Iterator[ExportedRow]:
        for trace in self._agent.traces.order_by("prompt_key", "id"):
            yield self._row(trace.prompt_key, {"question": trace.question})


# --- a reward. Its weight is 0, so that it counts only for agents that give it another ------------------------------------


class ShortAnswer(BaseReward):
    name = "short_answer"
    weight = 0.0

    def compute(self, trace: TraceRecord) -> RewardResult:
        words = len(trace.response.split())
        return self.gives(1.0 if words <= 20 else 20 / words, f"{words} words")


# --- a training method: imitation in a single pass ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OnePass(ImitationConfig):
    epochs: float = 1.0


ONE_PASS = replace(METHODS["sft"], command="train", config=OnePass, automatic=(), version="one-pass-v")


# --- a guard rail: no more questions instead of answers than before ------------------------------------------------------


def _asking_back(findings: Any, limit: float) -> tuple[float | None, bool, str]:
    new, current = (
        fmean(text.rstrip().endswith("?") for text in answers.texts) for answers in (findings.new, findings.current)
    )
    text = f"{new:.0%} of the answers end with a question, {current:.0%} of the version in use"
    return new - current, new - current > limit, text


ASKING_BACK = (GuardRail("asking_back", 0.5, "It answers, where it could ask back"), _asking_back)
