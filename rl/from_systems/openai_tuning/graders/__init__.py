"""OpenAI's graders: JSON that says how an answer is scored. ``validate`` checks one, ``run`` scores one answer by it, and
``GraderScorer`` rewards the answers of a run by it.

Imports: base, config, dataset_builder, evaluation, sandbox, web; Django.
"""

# ruff: noqa: F401  for others to import from here
from rl.from_systems.openai_tuning.graders.failures import GraderInvalid
from rl.from_systems.openai_tuning.graders.running import GraderScorer, run
from rl.from_systems.openai_tuning.graders.specification import validate
