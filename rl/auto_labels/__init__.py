"""Labels that a judge proposes, after it has learned from people's.

A proposal is not feedback. It is stored apart, marked wherever it is shown, gives way to every person's label, and is
trained on only from the confidence on that a person chose for the agent.

- ``learn``: a LabelModel from people's ratings, picks and edits, measured on held-out prompts
- ``go_on``: the newest one again, where nothing was said since
- ``propose``: its proposals for the traces that nobody has labelled
- ``learn_to_hear``, ``hear``: the same of what users wrote next
- ``newest``: the LabelModel that counts
- ``predictor``: what ``learned_reward`` asks

Imports: base, dataset_builder, judge, lm, models; Django."""

# ruff: noqa: F401  for others to import from here
from rl.auto_labels.hearing import hear, learn_to_hear
from rl.auto_labels.learning import Learned, go_on, learn
from rl.auto_labels.predicting import newest, predictor
from rl.auto_labels.proposing import Proposed, propose
