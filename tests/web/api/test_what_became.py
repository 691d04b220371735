"""The example of docs/capturing.md: what an app tells of answers that were accepted, changed and thrown away."""

import json
from pathlib import Path

import pytest

from rl.dataset_builder import DataOptions, freeze
from rl.models import Agent
from tests.conftest import make_trace
from tests.dataset_builder.ratings import all_rows
from tests.web.api.conftest import Caller
from tests.web.api.test_feedback_post import URL

PAGE = Path(__file__).parents[3] / "docs" / "capturing.md"
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("data_dir")]


def test_an_app_says_of_each_answer_whether_it_was_accepted_changed_or_thrown_away(server: Caller, agent: Agent):
    example = (
        PAGE.read_text().partition("## What became of an answer")[2].partition("<<'END'\n")[2].partition("END\n")[0]
    )
    for line in example.splitlines():
        name = json.loads(line)["trace"]
        make_trace(agent, f"Question of {name}?", f"Answer of {name}.", external_id=name)
    answer = server.raw(URL, example, "application/x-ndjson")
    assert [result["status"] for result in answer.json()["results"]] == [201, 201, 201]
    rows = all_rows(freeze(agent, DataOptions(min_samples=1, val_split=0), method="mpo"))
    texts = {tuple(row[side] and row[side][0]["content"] for side in ("chosen", "rejected")) for row in rows}
    assert texts == {
        ("Answer of mail-1.", None),
        ("It left on Monday.", "Answer of mail-2."),
        (None, "Answer of mail-3."),
    }
