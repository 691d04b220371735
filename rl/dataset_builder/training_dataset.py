"""A training set in one call, from the database or from Command Center's files."""

from __future__ import annotations

from pathlib import Path

from rl.base.errors import UsageError
from rl.collect.importers.newcomers import settle_in
from rl.dataset_builder.frozen.freezing import freeze, freeze_files
from rl.dataset_builder.options import DataOptions
from rl.models import Agent, TrainingSet

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

    Raises UsageError for a wrong argument, BadFile for a file that cannot be read, NotEnoughData.
    """
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
    return freeze_files(known_agent or new_agent_of_files(agent), data_path, ratings_path, options)


def new_agent_of_files(name: str = AGENT) -> Agent:
    """Saved. Raises ValidationError for a name that none can have."""
    agent = Agent.new(name)
    settle_in(agent, "command_center")
    agent.full_clean()
    agent.save()
    return agent
