"""A linear classifier of answers: good or bad, as people would label them.

Words and pairs of words of question and answer, tool calls with their outcome, and the answer's length are hashed into
65,536 features; a logistic regression weighs them. It learns in seconds on a CPU, and its weights are plain numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression

from rl.base.errors import BadFile
from rl.base.files import replacing
from rl.base.records import TraceRecord

FEATURES = 2**16
INVERSE_REGULARISATION = 10.0
LONGEST = 20_000
"""Characters of a text that are looked at."""
CHUNK = 500
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Weights:
    coefficients: np.ndarray
    """Shape (FEATURES,)."""
    intercept: float


def fit(examples: Iterable[tuple[TraceRecord, bool]]) -> Weights:
    """Both labels must occur. Traces are read once, one at a time."""
    labels: list[bool] = []

    def traces() -> Iterator[TraceRecord]:
        for trace, good in examples:
            labels.append(good)
            yield trace

    features = _vectoriser().transform(traces())
    model = LogisticRegression(C=INVERSE_REGULARISATION, max_iter=1000).fit(features, labels)
    return Weights(model.coef_[0].astype(np.float32), float(model.intercept_[0]))


def probabilities(weights: Weights, traces: Sequence[TraceRecord]) -> np.ndarray:
    """Each trace's probability of a good label; shape (len(traces),)."""
    logits = _vectoriser().transform(traces) @ weights.coefficients + weights.intercept
    return 1 / (1 + np.exp(-np.clip(logits, -30, 30)))


def measure(weights: Weights, examples: Iterable[tuple[TraceRecord, bool]]) -> Iterator[tuple[float, bool]]:
    """For each example the probability of good, and whether it is."""
    for trace, good in examples:
        yield float(probabilities(weights, [trace])[0]), good


def save(weights: Weights, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, "wb") as file:
        np.savez_compressed(file, coefficients=weights.coefficients, intercept=np.float64(weights.intercept))


def load(path: Path) -> Weights:
    """Raises BadFile."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            weights = Weights(stored["coefficients"], float(stored["intercept"]))
    except (OSError, ValueError, KeyError, EOFError, TypeError, BadZipFile) as error:
        raise BadFile(path, f"not the weights of a label model: {error}") from error
    if weights.coefficients.shape != (FEATURES,) or not np.isfinite(weights.coefficients).all():
        raise BadFile(path, f"not the weights of a label model: {FEATURES} finite numbers are expected")
    return weights


def _vectoriser() -> HashingVectorizer:
    return HashingVectorizer(analyzer=_tokens, n_features=FEATURES, alternate_sign=False, norm="l2")


def _tokens(trace: TraceRecord) -> Iterator[str]:
    asked, answered = _words(trace.question), _words(trace.response)
    yield from (f"asked {word}" for word in asked)
    yield from (f"answered {word}" for word in answered)
    yield from (f"answered {first} {second}" for first, second in zip(answered, answered[1:], strict=False))
    for call in trace.tool_calls:
        yield f"tool {call.tool_name} {'succeeded' if call.success else 'failed'}"
    for event in trace.tasks:
        yield f"task {event.status}"
    yield f"length {len(answered).bit_length()}"


def _words(text: str) -> list[str]:
    return _WORD.findall(text[:LONGEST].lower())
