"""A training set in one call, from the database or from Command Center's files; and under names that users of other systems
know: the sets of an agent, and what it has to learn from, counted."""

from pathlib import Path
from typing import Any

from django.db.models import Count, Exists, Max, OuterRef, Q

from rl.base.errors import UsageError
from rl.collect.importers.newcomers import settle_in
from rl.dataset_builder.frozen.freezing import freeze
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.plan.plan import TrainingPlan, training_plan
from rl.dataset_builder.read.files import FileSource
from rl.models import Agent, Feedback, TrainingSet

SOURCES = ("db", "file")
AGENT = "command-center"


def prepare_training_dataset(
    source: str = "db",
    data_path: str | Path | None = None,
    ratings_path: str | Path | None = None,
    pair_type: str = "both",
    min_samples: int = 10,
    val_split: float = 0.2,
    agent: str = AGENT,
) -> TrainingSet:
    """Freezes an agent's feedback (``source="db"``), or Command Center's files (``source="file"``).

    The set that is returned is stored. ``directory`` holds ``train.jsonl`` and ``heldout.jsonl`` in TRL's conversational
    preference format (``prompt``, ``chosen``, ``rejected``: lists of messages) and ``manifest.json``; ``train_rows`` and
    ``heldout_rows`` count them; ``stats`` says what was left out and why. An agent that does not exist is made for files.

    Raises UsageError for a wrong argument, BadFile for a file that cannot be read, NotEnoughData."""
    options = DataOptions(pair_type=pair_type, min_samples=min_samples, val_split=val_split)
    if source not in SOURCES:
        raise UsageError(f"source must be one of {', '.join(SOURCES)}, not {source!r}")
    known_agent = Agent.objects.filter(name__iexact=agent).first()
    if source == "db":
        if known_agent is None:
            raise UsageError(f"no agent is named {agent!r}")
        return freeze(known_agent, options)
    if data_path is None:
        raise UsageError("source 'file' needs data_path, the exhaustive_data.json of Command Center")
    return freeze(known_agent or new_agent_of_files(agent), options, FileSource(data_path, ratings_path))


def new_agent_of_files(name: str = AGENT) -> Agent:
    """Saved. Raises ValidationError for a name that none can have."""
    agent = Agent.new(name)
    settle_in(agent, "command_center")
    agent.full_clean()
    agent.save()
    return agent


class DatasetPipeline:
    """An agent's feedback and rewards as frozen training sets, one kind of rows for each method. Keyword arguments are
    those of DataOptions: ``min_samples``, ``val_split``, ``min_confidence``, and for pairs ``pair_type`` and
    ``max_pairs_per_question``. All raise NotEnoughData and UsageError."""

    def __init__(self, agent: Agent | str) -> None:
        self.agent = agent if isinstance(agent, Agent) else Agent.by_name(agent)

    def build_dpo_dataset(self, **options: Any) -> TrainingSet:
        """Rows ``{prompt, chosen, rejected}``."""
        return self._freeze("dpo", options)

    def build_kto_dataset(self, **options: Any) -> TrainingSet:
        """Rows ``{prompt, completion, label}``."""
        return self._freeze("kto", options)

    def build_grpo_dataset(self, **options: Any) -> TrainingSet:
        """Rows ``{prompt, completions, rewards}``."""
        return self._freeze("grpo", options)

    def build_reward_dataset(self, **options: Any) -> TrainingSet:
        """Rows ``{prompt, completion, reward}``."""
        return self._freeze("reward", options)

    def plan(self) -> TrainingPlan:
        """How many rows each method could use now."""
        return training_plan(self.agent)

    def _freeze(self, method: str, options: dict[str, Any]) -> TrainingSet:
        return freeze(self.agent, DataOptions(**{"pair_type": self.agent.pair_type, **options}), method=method)


_RATING = Q(kind=Feedback.Kind.RATING)


def get_training_stats(agent_type: str) -> dict[str, Any]:
    """What there is to learn from and what has been learned, of the agent with this name. Raises UsageError for an
    unknown one. Feedback is counted as it stands now; ``waiting`` are the items that no training set has read."""
    agent = Agent.by_name(agent_type)
    traces = agent.traces.order_by()
    newest_set, newest_version, last_run = agent.training_sets.first(), agent.versions.first(), agent.runs.first()
    return {
        "agent": agent.name,
        "pair_type": agent.pair_type,
        "traces": traces.count(),
        # Distinct rows of a subquery come in the order of the index; count(DISTINCT) would sort them all.
        "prompts": traces.values("prompt_key").distinct().count(),
        **_feedback(agent),
        "training_sets": agent.training_sets.count(),
        "train_rows": newest_set.train_rows if newest_set else 0,
        "heldout_rows": newest_set.heldout_rows if newest_set else 0,
        "runs": agent.runs.count(),
        "last_run": last_run.pk if last_run else None,
        "last_run_state": last_run.state if last_run else None,
        "versions": agent.versions.count(),
        "newest_version": newest_version.name if newest_version else None,
        "newest_version_stage": newest_version.stage if newest_version else None,
    }


def _feedback(agent: Agent) -> dict[str, Any]:
    current = Feedback.objects.filter(agent=agent, is_current=True).exclude(kind=Feedback.Kind.RETRACTION).order_by()
    counts = current.aggregate(
        ratings=Count("pk", filter=_RATING),
        up=Count("pk", filter=_RATING & Q(value__gt=0.5)),
        down=Count("pk", filter=_RATING & Q(value__lt=0.5)),
        neutral=Count("pk", filter=_RATING & Q(value=0.5)),
        comparisons=Count("pk", filter=Q(kind=Feedback.Kind.COMPARISON)),
        corrections=Count("pk", filter=Q(kind=Feedback.Kind.CORRECTION)),
        outcomes=Count("pk", filter=Q(kind=Feedback.Kind.OUTCOME)),
        waiting=Count("pk", filter=Q(training_set__isnull=True)),
        last_rated_at=Max("rated_at"),
    )
    last = counts.pop("last_rated_at")
    return {
        **counts,
        # each answer is looked up by its key: to sort the keys of all ratings takes twice as long
        "rated_traces": agent.traces.filter(Exists(current.filter(_RATING, trace=OuterRef("pk")))).order_by().count(),
        "raters": current.values("rater").distinct().count(),
        "last_rated_at": last,
    }
