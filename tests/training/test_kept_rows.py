import json
from pathlib import Path

import pytest

from rl.base.records import silent
from rl.config.training_job import LEARNED_ROWS
from rl.training import dpo
from rl.training.preparing import encoded_rows, prepare
from tests.conftest import IMPATIENT
from tests.training.conftest import Listener, polite_rows
from tests.training.conftest import job as make_job

pytestmark = pytest.mark.learn


def test_a_run_keeps_its_first_rows_in_its_folder(tiny_base: Path, tmp_path: Path):
    job = make_job(tiny_base, tmp_path, polite_rows(50))
    with prepare(job, silent) as start:
        encoded_rows(start, "dpo")
    kept = json.loads((job.output_dir / LEARNED_ROWS).read_text())
    assert len(kept["rows"]) == 40
    assert {answer["name"] for answer in kept["rows"][0]["answers"]} == {"chosen", "rejected"}


def test_chats_that_the_template_refuses_are_counted_in_log_result_and_among_the_kept_rows(
    impatient_base: Path, tmp_path: Path
):
    *rows, last = polite_rows()
    long = [*last["prompt"], {"role": "assistant", "content": "So?"}, *last["prompt"]]
    job = make_job(impatient_base, tmp_path, [*rows, {**last, "prompt": [*long[:2], *long]}], epochs=0.5)
    listener = Listener()
    result = dpo.train(job, listener)
    assert result.metrics["refused_rows"] == 1
    assert result.metrics["dropped_rows"] == 0
    assert f"1 of {len(rows) + 1} rows are left out" in listener.log
    [left_out] = json.loads((job.output_dir / LEARNED_ROWS).read_text())["left_out"]
    assert IMPATIENT in left_out["reason"]
