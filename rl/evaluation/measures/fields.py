"""How often an answer is the JSON object that it should be, field by field, beside the base model and the version in use."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rl.base.errors import NotEnoughData
from rl.base.records import AnswerScore, Report, TraceRecord
from rl.evaluation import DECIDING_FIELDS, MODELS, Contest
from rl.evaluation.measures import reward as rewards
from rl.evaluation.measures.reward import Earnings, Row
from rl.evaluation.own_rows import EXPECTED

SHORT = 200
"""Characters of an example."""


@dataclass(frozen=True, slots=True)
class FieldScorer:
    """1 for an answer with the right value of the field that decides, or of all fields where none does; else 0. The
    components are the fields that are right; there are none where the answer is not a JSON object."""

    deciding: str

    def __call__(self, trace: TraceRecord) -> AnswerScore:
        right = right_fields(trace.response, trace.details[EXPECTED])
        if right is None:
            return AnswerScore(0.0)
        decides = [right[self.deciding]] if self.deciding else right.values()
        return AnswerScore(float(all(decides)), {name: float(value) for name, value in right.items()})


def compare(contest: Contest, rows: Sequence[Row], agent: str, report: Report) -> Earnings:
    """``agent``: its name, which may be a type of DECIDING_FIELDS. Raises NotEnoughData where no row has its field."""
    deciding = DECIDING_FIELDS.get(agent.upper(), "")
    usable = [row for row in rows if not deciding or deciding in row["details"][EXPECTED]]
    if not usable:
        needed = f" with the field {deciding}, by which answers of {agent} are judged" if deciding else ""
        raise NotEnoughData(f"there is no line{needed} that no version has learned from")
    return rewards.compare(contest, usable, FieldScorer(deciding), report)


def describe(earnings: Earnings, rows: Sequence[Row], agent: str) -> dict[str, Any]:
    """Figures beside those of rewards: of the new version's answers, ``accuracy``, ``correct``, ``errors`` (answers that
    cannot be read) and the first of them; of each field how often each model has it right. ``avg_reward`` is the mean of the
    rewards in the file, which says nothing of the model. ``rows``: all of the file."""
    stored = [row["reward"] for row in rows if row["reward"] is not None]
    errors = [
        {
            "index": index,
            "prompt": row["prompt"][-1]["content"][:SHORT],
            "response": answer[:SHORT],
            "error": "the answer has no JSON object",
        }
        for index, (row, answer) in enumerate(zip(earnings.rows, earnings.answers["new"], strict=True))
        if parse(answer) is None
    ]
    return {
        "field": DECIDING_FIELDS.get(agent.upper()),
        "accuracy": earnings.mean("new"),
        "total_examples": len(rows),
        "answered": len(earnings.rows),
        "correct": int(sum(earnings.rewards["new"])),
        "errors": len(errors),
        "error_examples": errors[:5],
        "avg_reward": fmean(stored) if stored else None,
        "fields": shares_right(_compare, earnings),
    }


def right_fields(answer: str, expected: Mapping[str, Any]) -> dict[str, bool] | None:
    """Whether the answer has the value of each field that is expected; None for an answer that cannot be read."""
    given = parse(answer)
    if given is None:
        return None
    return {name: name in given and bool(_plain(given[name]) == _plain(value)) for name, value in expected.items()}


def parse(answer: str) -> dict[str, Any] | None:
    """The first JSON object in a text."""
    decoder, start = json.JSONDecoder(), answer.find("{")
    while start >= 0:
        try:
            value, _ = decoder.raw_decode(answer, start)
        except (ValueError, RecursionError):
            start = answer.find("{", start + 1)
        else:
            return dict(value)
    return None


def _plain(value: Any) -> Any:
    """Texts whatever their case; lists whatever their order."""
    if isinstance(value, str):
        return value.strip().casefold()
    if isinstance(value, list):
        return sorted(json.dumps(_plain(part), sort_keys=True) for part in value)
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return value


def shares_right(compare: Callable[[Row, str], Mapping[str, bool]], earnings: Earnings) -> list[dict[str, Any]]:
    """How often each model has a field right. ``compare``: whether the fields of a row are right in an answer."""
    hits: dict[str, dict[str, list[bool]]] = {}
    for model in MODELS:
        for row, text in zip(earnings.rows, earnings.answers[model], strict=True):
            for name, is_right in compare(row, text).items():
                hits.setdefault(name, {known: [] for known in MODELS})[model].append(is_right)
    return [
        {"name": name, "prompts": len(of_models["new"]), "models": {model: fmean(of_models[model]) for model in MODELS}}
        for name, of_models in hits.items()
    ]


def _compare(row: Row, answer: str) -> dict[str, bool]:
    expected = row["details"][EXPECTED]
    return right_fields(answer, expected) or dict.fromkeys(expected, False)
