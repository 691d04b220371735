"""Judges whose taste is known: they prefer long answers, or short ones."""

import json
from pathlib import Path

import numpy as np

from rl.judge import head
from rl.judge.form import WIDTH
from rl.models import Agent, LabelModel


def make_judge(agent: Agent, base: Path, taste: float = 1.0, accuracy: float = 0.8) -> LabelModel:
    """``taste``: above 0 for long answers, below for short ones. ``accuracy`` at most 0.5: one that may not be used."""
    row = LabelModel.objects.create(
        agent=agent, labels=40, heldout_labels=20, heldout_accuracy=accuracy, majority_share=0.5
    )
    states = 2 * json.loads((base / "config.json").read_text())["hidden_size"]
    width = states + 1 + WIDTH
    length_alone = np.eye(1, width, states)[0]
    head.save(
        head.Head(np.zeros(width), length_alone, np.full(width, taste), np.array(0.0), agent.base_model), row.path
    )
    return row
