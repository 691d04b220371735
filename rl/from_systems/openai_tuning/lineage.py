"""A job begins with a base model, or with what earlier jobs have made of one.

What was tuned is not tuned further: the base model learns the files of all these jobs together, so that what it learned
first is not forgotten over what comes last, and what a person takes back leaves all of it.
"""

from dataclasses import dataclass
from typing import Final

from django.db.models import QuerySet

from rl.base.errors import UsageError
from rl.models import TuningJob
from rl.serving.gateway.routing import CHECKPOINT

TUNED: Final = "ft:"
LONGEST: Final = 32
"""Jobs behind each other."""
_METHODS: Final = {
    frozenset({"supervised"}): "sft",
    frozenset({"dpo"}): "dpo",
    frozenset({"reinforcement"}): "grpo",
    frozenset({"supervised", "dpo"}): "mpo",
}
"""Types of their methods to ours, of which MPO learns accepted answers and preferences in one training."""


@dataclass(frozen=True, slots=True)
class Lineage:
    base: str
    """The name of the base model, as the first job asked for it."""
    jobs: tuple[TuningJob, ...]
    """The first one first, and at last the job itself."""

    @property
    def method(self) -> str:
        return _METHODS[frozenset(job.method["type"] for job in self.jobs)]

    @property
    def files(self) -> list[str]:
        """Ids of those that are learned and those that it is measured on."""
        return [name for job in self.jobs for name in (job.training_file, job.validation_file) if name]


def find_tuned(rows: QuerySet[TuningJob], name: str) -> TuningJob | None:
    """The job that made a model, by the model's name or that of its checkpoint."""
    return rows.filter(tuned_model__iexact=name.lower().partition(CHECKPOINT)[0]).first()


def lineage_of(job: TuningJob) -> Lineage:
    """Raises UsageError where a job before it is gone, or where one of several is rewarded by a grader: its prompts have no
    answers that another training could learn."""
    jobs = [job]
    while jobs[-1].model.startswith(TUNED):
        earlier = find_tuned(TuningJob.objects.filter(agent=job.agent_id), jobs[-1].model)
        if earlier is None:
            raise UsageError(f"{jobs[-1].model} does not exist any more: begin with a base model")
        jobs.append(earlier)
        if len(jobs) > LONGEST:
            raise UsageError(f"more than {LONGEST} jobs were tuned behind each other: begin with a base model")
    if len(jobs) > 1 and any(job.method["type"] == "reinforcement" for job in jobs):
        raise UsageError("a reinforcement job begins with a base model, and nothing is tuned behind it")
    return Lineage(jobs[-1].model, tuple(reversed(jobs)))
