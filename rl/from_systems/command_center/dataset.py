"""``prepare_training_dataset`` with Command Center's arguments: rows in memory, of a training set that is frozen here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.db.models import Exists, OuterRef

from rl import dataset_builder
from rl.base.errors import NotEnoughData
from rl.dataset_builder.frozen.files import HELD_OUT, TRAIN
from rl.dataset_builder.read.ratings import DatabaseSource
from rl.dataset_builder.training_dataset import AGENT
from rl.models import Agent, Trace

COLUMNS = ("prompt", "chosen", "rejected", "question_id")
MIN_SAMPLES, VAL_SPLIT = 50, 0.1


class Rows(list[dict[str, Any]]):
    """Prompts and answers are lists of chat messages."""

    column_names = list(COLUMNS)
    num_rows = property(len)


def prepare_training_dataset(
    source: str = "db",
    data_path: Path | str | None = None,
    ratings_path: Path | str | None = None,
    pair_type: str = "both",
    min_samples: int = MIN_SAMPLES,
    val_split: float | None = None,
    agent: str | None = None,
) -> dict[str, Rows]:
    """``train`` and ``validation``. ``agent``: whose answers; by default the only one that has widgets. Raises ValueError
    where it is too little, UsageError and BadFile."""
    try:
        frozen = dataset_builder.prepare_training_dataset(
            source=source,
            data_path=data_path,
            ratings_path=ratings_path,
            pair_type=pair_type,
            min_samples=min_samples,
            val_split=VAL_SPLIT if val_split is None else val_split,
            agent=agent or the_agent(),
        )
    except NotEnoughData as error:
        raise ValueError(str(error)) from error
    return {"train": Rows(_read(frozen.directory / TRAIN)), "validation": Rows(_read(frozen.directory / HELD_OUT))}


def the_agent() -> str:
    """The only agent with widgets; where none or several have some, the one that files are trained for."""
    widgets = Trace.objects.filter(agent=OuterRef("pk"), details__has_key="scenario")
    names = list(Agent.objects.filter(Exists(widgets)).values_list("name", flat=True)[:2])
    return names[0] if len(names) == 1 else AGENT


def get_fixture_descriptions(agent: str | None = None) -> dict[str, dict[str, str]]:
    """Scenario to the fixtures that the imported runs have shown, with their names in words."""
    known = Agent.objects.filter(name__iexact=agent or the_agent()).first()
    fixtures = DatabaseSource(known).fixtures() if known else {}
    return {
        scenario: {slug: slug.replace("_", " ").replace("-", " ") for slug in slugs}
        for scenario, slugs in fixtures.items()
    }


def _read(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield {**{name: row[name] for name in COLUMNS[:3]}, "question_id": row["prompt_key"]}
