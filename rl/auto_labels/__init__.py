"""Labels that a small model proposes, after it has learned from people's.

A proposal is not feedback. It is stored apart, marked wherever it is shown, gives way to every person's label, and is
trained on only from the confidence on that a person chose for the agent.

- ``learn``: a LabelModel from people's labels, measured on held-out prompts
- ``propose``: its proposals for the traces that nobody has labelled
- ``predictor``: what ``learned_reward`` asks

Imports: base, collect, dataset_builder, models; Django, torch.
"""

from __future__ import annotations

from rl.auto_labels.learning import LEAF, Learned, learn, newest, predictor
from rl.auto_labels.proposing import Proposed, propose

__all__ = ["LEAF", "Learned", "Proposed", "learn", "newest", "predictor", "propose"]
