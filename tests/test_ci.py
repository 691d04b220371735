"""What CI runs, on PostgreSQL too. A forge runs the same."""

from pathlib import Path

import yaml

from backend.bootstrap import SUPPORTED

ROOT = Path(__file__).resolve().parents[1]


def test_it_runs_all_tests_and_on_postgresql_those_that_are_marked_for_it():
    runs = [
        line for line in (ROOT / ".ci/run").read_text().splitlines() if "manage.py test" in line and "step" not in line
    ]
    everything, on_postgresql = runs
    assert everything == "python3 manage.py test --retry"
    assert on_postgresql.startswith("DATABASE_URL=$TEST_POSTGRES_URL python3 manage.py test --retry -m database ")
    marked = [file for file in ROOT.glob("tests/**/test_*.py") if "pytest.mark.database" in file.read_text()]
    assert len(marked) > 100


def test_a_forge_runs_all_of_it_on_the_oldest_and_the_newest_python_that_is_promised():
    (job,) = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"].values()
    promised = [".".join(map(str, version)) for version in SUPPORTED]
    assert job["strategy"]["matrix"] == {"python": promised}
    assert job["container"]["image"].startswith("python:${{ matrix.python }}-")
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
