"""How many answers are right, beside the base model and the version in use, where answers are right or wrong.

No judge is asked: an answer is right if it says what people accepted. Every prompt is asked once of each model, so the
versions are compared pair by pair, by an exact test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from rl.base.records import GeneratedAnswer
from rl.data_formatter.answer_kinds import AnswerKind, normalise
from rl.evaluation.accepted import Accepted
from rl.evaluation.contest import MODELS
from rl.evaluation.measures.reward import Earnings

MOST_CLASSES = 30
"""The most frequent ones are told of."""
MOST_CONFUSED = 10


def count_right(accepted: Accepted, answers: Mapping[str, Sequence[GeneratedAnswer | None]]) -> Earnings:
    """``answers``: of the models, in the order of the rows. 1 for a right answer, else 0; prompts without room are left
    out."""
    given = {**answers, "current": answers.get("current", answers["base"])}
    places = [at for at in range(len(accepted.rows)) if all(given[name][at] is not None for name in MODELS)]
    rows = [accepted.rows[at] for at in places]
    texts = {name: [answer.text for at in places if (answer := given[name][at])] for name in MODELS}
    right = {
        name: [float(accepted.kind.is_right(text, row["accepted"])) for text, row in zip(of_model, rows, strict=True)]
        for name, of_model in texts.items()
    }
    return Earnings(rows, texts, right, len(accepted.rows) - len(rows))


def describe_right(earnings: Earnings, kind: AnswerKind) -> dict[str, Any]:
    """Beside the figures of rewards: the kind of the answers, right ones of each model, by class or by field, and what the
    new version takes for what."""
    parts = {"classes": _by_class(earnings)} if kind.kind == "closed" else {"fields": _by_field(earnings, kind)}
    figures = {
        "answers": {"kind": kind.kind, "reason": kind.reason},
        "right": {name: int(sum(earnings.rewards[name])) for name in MODELS},
        "prompts": len(earnings.rows),
        "of_kind": {name: fmean(map(kind.is_of_kind, earnings.answers[name])) for name in MODELS}
        if earnings.rows
        else {},
        **parts,
    }
    return {**figures, "said": in_words(figures)}


def _by_class(earnings: Earnings) -> dict[str, Any]:
    wanted = [normalise(row["accepted"][0]) for row in earnings.rows]
    classes = Counter(wanted).most_common(MOST_CLASSES)
    confused = Counter(
        (right, normalise(text))
        for right, text, hit in zip(wanted, earnings.answers["new"], earnings.rewards["new"], strict=True)
        if not hit
    )
    return {
        "rows": [
            {
                "name": name,
                "prompts": prompts,
                "right": {model: _hits_of(name, wanted, earnings.rewards[model]) for model in MODELS},
            }
            for name, prompts in classes
        ],
        "confused": [
            {"wanted": right, "given": given[:80], "times": times}
            for (right, given), times in confused.most_common(MOST_CONFUSED)
        ],
    }


def _hits_of(name: str, wanted: Sequence[str], hits: Sequence[float]) -> int:
    return int(sum(hit for right, hit in zip(wanted, hits, strict=True) if right == name))


def _by_field(earnings: Earnings, kind: AnswerKind) -> list[dict[str, Any]]:
    """``fields.describe``'s rows: how often each model has a field right."""
    hits: dict[str, dict[str, list[bool]]] = {}
    for model in MODELS:
        for row, text in zip(earnings.rows, earnings.answers[model], strict=True):
            for name, is_right in kind.compare(text, row["accepted"][0]).items():
                hits.setdefault(name, {known: [] for known in MODELS})[model].append(is_right)
    return [
        {"name": name, "prompts": len(of_models["new"]), "models": {model: fmean(of_models[model]) for model in MODELS}}
        for name, of_models in hits.items()
    ]


def in_words(report: Mapping[str, Any]) -> str:
    """Such as "Right in 69 of 80 (was 0); most often confused: cash with transfers"."""
    right, prompts = report["right"], report["prompts"]
    text = f"Right in {right['new']} of {prompts} (was {right['current']})"
    confused = report.get("classes", {}).get("confused") or []
    most = next((pair for pair in confused if pair["times"] > 1), None)
    return f"{text}; most often confused: {most['wanted']} with {most['given'] or 'nothing'}" if most else text
