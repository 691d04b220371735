"""Whatever a file says, and however often it contradicts itself: imported once more it changes no row."""

import json
import tempfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.base.errors import BadFile
from rl.collect.importers import IMPORTERS, command_center
from rl.collect.ingest import importing
from rl.collect.ingest.importing import import_files
from rl.collect.traces import write
from rl.models import Agent, Feedback, Trace
from tests.collect.importers.test_any_record import SEEDS, damaged, places, put
from tests.collect.test_import_command_center import entry, up
from tests.from_systems.toolbox.checkpoints.make_checkpoints import write_checkpoints

few = settings(max_examples=10)
TIMES = ("2026-02-02T10:00:00Z", "2026-02-03T10:00:00Z", "2999-01-01T00:00:00Z", None)
chunks = st.sampled_from([1, 2, 3, 500])
"""Records in a transaction: what contradicts itself may do so in one or in two."""


def all_rows() -> list[list[dict[str, Any]]]:
    return [list(rows.order_by("pk").values()) for rows in (Trace.objects, Feedback.objects)]


def the_same_again(load: Callable[[], object]) -> None:
    """Of ``load`` in an empty database."""
    Trace.objects.all().delete()
    load()
    once = all_rows()
    for _ in range(2):
        load()
        assert all_rows() == once


def alike(value: Any) -> st.SearchStrategy[Any]:
    """Another value that may stand in the place of this one."""
    if isinstance(value, bool):
        return st.booleans()
    if isinstance(value, (int, float)):
        return st.sampled_from([0, 1, 0.5, -1, 1e23, 2**31 - 1])
    return st.sampled_from(["x", "1", "1.0", "5", *filter(None, TIMES)]) if isinstance(value, str) else st.none()


@st.composite
def contradictory(draw: Any, name: str) -> list[Any]:
    """Records about few answers, in which something here and there is something else of its kind."""
    rows: list[Any] = []
    for _ in range(draw(st.integers(2, 6))):
        row = draw(st.sampled_from(SEEDS[name]))
        for _ in range(draw(st.integers(0, 3))):
            way = draw(st.sampled_from(places(row)))
            row = put(row, way, draw(alike(inner(row, way))))
        rows.append(row)
    return [row for row in rows if isinstance(row, dict)]


def inner(value: Any, way: tuple[Any, ...]) -> Any:
    for key in way:
        value = value[key]
    return value


def in_chunks_of(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (write, importing, command_center):
        monkeypatch.setattr(module, "CHUNK", size)


@pytest.mark.database
@pytest.mark.parametrize("name", SEEDS)
@pytest.mark.django_db
def test_a_file_of_lines_again_changes_nothing(name: str, agent: Agent, monkeypatch: pytest.MonkeyPatch):
    @few
    @given(contradictory(name) | damaged(name), chunks)
    def check(rows: list[Any], chunk: int) -> None:
        in_chunks_of(chunk, monkeypatch)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x.jsonl")
            path.write_text("\n".join(map(json.dumps, [SEEDS[name][0], *rows])))
            try:
                the_same_again(lambda: import_files(name, [path], agent=agent))
            except BadFile:
                return

    check()


ratings = st.builds(
    up, rating=st.sampled_from(["up", "down"]), rated_at=st.sampled_from(TIMES), notes=st.sampled_from("ab")
)
entries = st.builds(
    entry,
    entry_id=st.sampled_from(["e1", "e2", "e3"]),
    question_id=st.sampled_from(["q1", "q2"]),
    question=st.sampled_from(["How warm is it?", "Why?"]),
    category=st.sampled_from(["status", "history"]),
    rating=st.none() | ratings,
)


@pytest.mark.django_db
def test_a_simulation_again_changes_nothing(agent: Agent, monkeypatch: pytest.MonkeyPatch):
    @few
    @given(st.lists(entries, max_size=6), st.dictionaries(st.sampled_from(["e1", "e2", "e9"]), ratings), chunks)
    def check(simulated: list[Any], rated: dict[str, Any], chunk: int) -> None:
        in_chunks_of(chunk, monkeypatch)
        with tempfile.TemporaryDirectory() as folder:
            data, beside = Path(folder, "data.json"), Path(folder, "ratings.json")
            data.write_text(json.dumps({"run_id": "run-1", "entries": simulated}))
            beside.write_text(json.dumps(rated))
            the_same_again(lambda: command_center.run(agent, data, beside))

    check()


@pytest.mark.process
@pytest.mark.parametrize(("first", "second"), list(product([(0, 3), (1, 5)], [(0, 6), (2, 4)])))
@pytest.mark.django_db
def test_checkpoints_again_change_nothing(first, second, agent: Agent, tmp_path: Path):
    write_checkpoints(tmp_path, ("filer/1.pkl", "filer", *first, 1), ("filer/2.pkl", "filer", *second, 2))
    the_same_again(lambda: import_files("toolbox_checkpoint", [tmp_path], agent=agent))
    assert Trace.objects.exists()


def test_every_importer_is_tried():
    assert {*SEEDS, "command_center", "command_center_gallery", "toolbox_checkpoint"} == set(IMPORTERS)
