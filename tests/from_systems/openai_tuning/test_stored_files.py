import os
import shutil
import time
from pathlib import Path

import pytest

from rl.forgetting.forget import forget
from rl.forgetting.records import find_person
from rl.from_systems.openai_tuning.job_rows import store_rows
from rl.from_systems.openai_tuning.stored_files import INTERRUPTED_SECONDS, delete_file, live_files, sweep, write_file
from rl.models import Agent, Trace
from rl.models.tuning import UploadedFile
from rl.tasks import delete_expired
from tests.from_systems.openai_tuning.callers import CHATS, on_disk

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def made_old(path: Path) -> None:
    before = time.time() - INTERRUPTED_SECONDS - 60
    os.utime(path, (before, before))


def test_a_file_of_results_is_written_piece_by_piece(agent: Agent, data_dir: Path):
    row = write_file(agent, None, "step_metrics.csv", "fine-tune-results", iter([b"step,loss\n", b"1,0.5\n"]))
    assert row.path.read_bytes() == b"step,loss\n1,0.5\n"
    assert (live_files().get().bytes, row.agent) == (16, agent)
    delete_file(row)
    assert (on_disk(data_dir), live_files().count()) == (set(), 0)


def test_a_file_whose_writing_breaks_off_is_not_there(data_dir: Path):
    def broken():
        yield b"one"
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        write_file(None, None, "a.csv", "fine-tune-results", broken())
    assert (list((data_dir / "files").iterdir()), UploadedFile.objects.count()) == ([], 0)


def test_bytes_of_an_agent_that_is_gone_go_with_the_next_sweep(agent: Agent, data_dir: Path):
    row, kept = (write_file(owner, None, "a", "user_data", [b"a"]) for owner in (agent, None))
    agent.delete()
    assert sweep() == 0, "bytes that came just now may get their row in a moment"
    made_old(row.path)
    made_old(kept.path)
    assert delete_expired() == {"uploaded files": 1}
    assert on_disk(data_dir) == {kept.pk}


def test_a_row_whose_bytes_are_lost_goes_but_not_where_the_whole_disk_is_away(data_dir: Path):
    lost, kept = (write_file(None, None, "a", "user_data", [b"a"]) for _ in range(2))
    lost.path.unlink()
    assert (sweep(), live_files().get()) == (1, kept)
    shutil.rmtree(data_dir / "files")
    assert (sweep(), live_files().get()) == (0, kept)


def test_what_jobs_learned_from_a_file_is_forgotten_under_its_id(agent: Agent, data_dir: Path):
    file, other = (write_file(agent, None, "a.jsonl", "fine-tune", [CHATS]) for _ in range(2))
    for row in (file, other):
        assert store_rows(agent, row.pk, row.path, "supervised", held_out=False) == 10
    receipt = forget(find_person(file.pk), retrain=False, erase=str)
    assert receipt["deleted"]["Trace"] == 10
    assert {trace.session_id for trace in Trace.objects.all()} == {other.pk}
