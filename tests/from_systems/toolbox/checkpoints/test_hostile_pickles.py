"""No pickle acts: each asks for something, and none gets it. The reading process writes down all that Python audits."""

import json
import pickle
import subprocess
import sys
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests import security_tables
from tests.from_systems.toolbox.checkpoints.hostile import Case, cases
from tests.from_systems.toolbox.checkpoints.make_checkpoints import write_checkpoints

CASES = cases()
SLOWEST = 5.0
"""Seconds of CPU that one small file may cost; the largest take a tenth of that on an idle machine."""


def title(case: Case) -> str:
    return f"{case.group}: {case.name}"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What happened in the process that read all of it."""
    folder = tmp_path_factory.mktemp("hostile") / "checkpoints"
    write_checkpoints(folder, *[(f"{protocol}.pkl", "support", 0, 1, protocol) for protocol in range(6)])
    samples = {str(n): (folder / f"{n}.pkl").read_bytes().hex() for n in range(6)}
    samples["small"] = pickle.dumps(
        {"a": [1, 2.5, None], "t": (UTC, b"x"), "s": {"long": "text" * 9}}, protocol=4
    ).hex()
    watched = Path(__file__).with_name("watched.py")
    command = [sys.executable, "-I", "-S", str(watched), str(settings.BASE_DIR), json.dumps(samples)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_there_are_at_least_sixty_and_no_two_have_one_name():
    assert len({title(case) for case in CASES}) == len(CASES) >= 60


@pytest.mark.process
@pytest.mark.parametrize("case", CASES, ids=title)
def test_a_hostile_pickle_is_data_or_one_clear_error_and_nothing_happens(case: Case, seen: dict[str, Any]):
    found = seen["cases"][title(case)]
    assert found["events"] == [], f"it {case.must_not}"
    assert found["imported"] == [], "it imports a module"
    assert (found["outcome"], found["told"]) == (case.outcome, case.outcome), "it crashes with another error"
    assert found["seconds"] < SLOWEST, "it takes minutes"


@pytest.mark.process
@pytest.mark.parametrize("case", [case for case in CASES if case.control], ids=title)
def test_the_standard_unpickler_would_have_acted(case: Case, seen: dict[str, Any]):
    """The positive control: without our reader the watch sees something."""
    assert seen["control"][title(case)] != []


@pytest.mark.process
def test_a_checkpoint_that_is_cut_anywhere_is_refused(seen: dict[str, Any]):
    assert set(seen["cut"]["counts"]) == {"refused"}
    assert (seen["cut"]["events"], seen["cut"]["imported"]) == ([], [])


@pytest.mark.process
def test_damaged_checkpoints_are_data_or_refused_and_nothing_happens(seen: dict[str, Any]):
    """Four thousand, always the same ones: the seed is fixed."""
    found = seen["mutated"]
    assert (found["events"], found["imported"]) == ([], [])
    assert set(found["counts"]) == {"refused", "data"}
    assert min(found["counts"].values()) > 100, "the mutations must leave some readable"


def test_the_table_of_the_security_page_is_this_one():
    rows = [(case.group, escaped(case.name), case.must_not, case.outcome) for case in CASES]
    header = ("group", "pickle", "what it must not do", "outcome")
    security_tables.check("pickles", security_tables.table(header, *rows))


def escaped(name: str) -> str:
    return f"`{name}`" if "_" in name or "*" in name else name
