"""A Bradley-Terry head: a number for each answer, such that people prefer the larger one (Bradley and Terry, 1952).

One fit of pairs, single labels and scores, a ridge regression on the logistic scale:

    minimise  sum of w_j log(1 + exp(-(r_better - r_worse)))                         pairs
            + sum of w_i [-y_i log p_i - (1 - y_i) log(1 - p_i)],  p = sigmoid(r + c)   labels 0 or 1, scores between
            + |theta|^2 / 2,   r = theta . x

x are the features, each brought to mean 0 and deviation 1, the form's cut off; embeddings and states together weigh as much
as the form, and the length by itself.

Shapes: N answers, D features, J opinions, M dimensions that the opinions' features span."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rl.base.errors import BadFile, UsageError
from rl.base.files import replacing
from rl.judge.form import WIDTH
from rl.judge.labels import Opinion

LENGTH = 0.3
"""What the deviation of the length weighs beside a block of features."""
MOST_UNLIKE = 3.0
"""Deviations from the mean at which a number of the form ends: nobody has said anything of what is more unlike the answers
that were learned from."""
_CONSTANT = 3.0
"""The scale of the constant c of labels: large, so that it is hardly drawn to zero."""
_NEWTON_STEPS = 40
_CLOSE, _SMALL = 1e-4, 1e-6
"""A step of Newton's after which the next would be far smaller; a deviation that is none."""
_READS = 4
"""How answers are read (``rl.judge.features``), by a number that changes with it."""
_ARRAYS = ("mean", "scale", "weights", "constant")
"""What a file holds beside the base model's name."""


@dataclass(frozen=True, slots=True)
class Head:
    mean: np.ndarray
    """(D,), of the features."""
    scale: np.ndarray
    """(D,)."""
    weights: np.ndarray
    """(D,)."""
    constant: np.ndarray
    """(): what is added to a number before it is the logit of a good label."""
    base_model: str = ""
    """Whose features it reads, as the agent names it."""

    def ratings(self, features: np.ndarray) -> np.ndarray:
        """(N,): the number of each answer, in nats: the difference of two is the logit of being preferred. Raises
        UsageError for features of another width."""
        if features.shape[-1] != len(self.mean):
            raise UsageError(
                f"the judge reads {len(self.mean)} numbers of an answer, and the base model here gives "
                f"{features.shape[-1]}: it has learned on another base model ({self.base_model or 'not known'})"
            )
        return np.asarray(_standardise(features, self.mean, self.scale) @ self.weights)

    def goodness(self, features: np.ndarray) -> np.ndarray:
        """(N,): the probability of a good label."""
        return sigmoid(self.ratings(features) + self.constant)


def fit(features: np.ndarray, opinions: Sequence[Opinion]) -> Head:
    """Raises ValueError without an opinion."""
    if not opinions:
        raise ValueError("no opinions to learn from")
    seen = sorted({row for opinion in opinions for row in (opinion.answer, opinion.other) if row is not None})
    mean, scale = features[seen].mean(0), _scale(features[seen])
    scaled = _standardise(features, mean, scale)
    # design: x_better - x_worse of a pair, x and the constant of a label; (J, D + 1)
    design = np.zeros((len(opinions), features.shape[1] + 1))
    for row, opinion in enumerate(opinions):
        design[row, :-1] = scaled[opinion.answer] - (0 if opinion.other is None else scaled[opinion.other])
        design[row, -1] = _CONSTANT if opinion.other is None else 0.0
    values = np.array([1.0 if opinion.other is not None else opinion.value for opinion in opinions])
    weights = np.array([opinion.weight for opinion in opinions])
    # the fit lies in the span of the rows: J or D + 1 dimensions, whichever are fewer; (J, M) and (M, D + 1)
    left, sizes, axes = torch.linalg.svd(torch.from_numpy(design), full_matrices=False)
    theta = (_minimise(left * sizes, torch.from_numpy(values), torch.from_numpy(weights)) @ axes).numpy()
    return Head(mean, scale, theta[:-1], np.asarray(theta[-1] * _CONSTANT))


def _standardise(features: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    scaled = (features - mean) * scale
    most = MOST_UNLIKE * WIDTH**-0.5
    scaled[:, -WIDTH:] = scaled[:, -WIDTH:].clip(-most, most)
    return scaled


def _scale(features: np.ndarray) -> np.ndarray:
    states = features.shape[1] - 1 - WIDTH
    deviation = features.std(0)
    blocks = np.concatenate([np.full(states, states**-0.5), [LENGTH], np.full(WIDTH, WIDTH**-0.5)])
    # what never varies says nothing
    return np.asarray(np.where(deviation > _SMALL, blocks / np.maximum(deviation, _SMALL), 0.0))


def _minimise(coordinates: Tensor, values: Tensor, weights: Tensor) -> Tensor:
    """Newton's method, (M,): the sum is convex, and so smooth that whole steps do."""
    ridge = torch.eye(coordinates.shape[1], dtype=coordinates.dtype)
    theta = torch.zeros_like(ridge[0])
    for _ in range(_NEWTON_STEPS):
        p = torch.sigmoid(coordinates @ theta)
        gradient = coordinates.T @ (weights * (p - values)) + theta
        curvature = coordinates.T @ (coordinates * (weights * p * (1 - p))[:, None]) + ridge
        step = torch.cholesky_solve(gradient[:, None], torch.linalg.cholesky(curvature))[:, 0]
        theta -= step
        if step.abs().max() < _CLOSE:
            break
    return theta


def sigmoid(logits: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -30, 30))))


def save(head: Head, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, "wb") as file:
        arrays = {name: getattr(head, name) for name in _ARRAYS}
        np.savez_compressed(file, base_model=np.array(head.base_model), reads=np.array(_READS), **arrays)


def load(path: Path) -> Head:
    """Raises BadFile."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            is_of_today = "reads" in stored and int(stored["reads"]) == _READS
            head = Head(**{name: stored[name] for name in _ARRAYS}, base_model=str(stored["base_model"]))
    except Exception as error:
        raise BadFile(path, f"not the weights of a judge: {error}") from error
    if not is_of_today:
        raise BadFile(path, "a judge that reads answers as an earlier version of Ratchet did: run auto_label again")
    width = head.mean.shape
    if head.scale.shape != width or head.weights.shape != width or head.constant.shape:
        raise BadFile(path, "not the weights of a judge: their shapes do not fit together")
    if not all(np.isfinite(getattr(head, name)).all() for name in _ARRAYS):
        raise BadFile(path, "not the weights of a judge: some are not finite numbers")
    return head
