"""Replays as the trainer plays them: many at once, each with tools of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rl.base.records import silent
from rl.config import AgentConfig
from rl.environments.crew import crew
from rl.training.agent.rows import TOGETHER, demonstrate, task_rows
from rl.training.agent.train import settings_of, stage_in
from rl.training.preparing import prepare
from tests.training.agents import job
from tests.training.conftest import Row

pytestmark = pytest.mark.learn


def row(number: int) -> Row:
    """The tool of each task has another name."""
    call = {"tool_name": f"read_{number}", "arguments": {"page": number}}
    prompt = [{"role": "user", "content": f"Question {number}?"}]
    task = {
        "task_id": f"t{number}",
        "prompt": prompt,
        "recorded": [{**call, "result": f"elephant {number}"}],
        "accepted": [f"page {number}"],
        "solution": [[call], f"page {number}"],
    }
    return {"prompt": prompt, "prompt_key": str(number), "split_key": str(number), "task": task}


@pytest.mark.parametrize("workers", [0, 2])
def test_each_task_is_asked_with_its_own_tools_and_reads_its_own_results(tiny_base: Path, tmp_path: Path, workers: int):
    rows = [row(number) for number in range(TOGETHER + 2)]
    settings: dict[str, Any] = {"environment": {"type": "replay"}, "max_length": 2048}
    made = job(tiny_base, tmp_path, rows, **settings)
    config = made.config
    assert isinstance(config, AgentConfig)
    with prepare(made, silent) as start, crew(settings_of(config), workers) as world:
        stage = stage_in(world, start.tokenizer, replace(start.limits, answer=40), config)
        task_set, lengths = task_rows(start, stage)
        asked = [start.tokenizer.decode(ids) for ids in task_set["prompt_ids"]]
        shown = [
            (start.tokenizer.decode(prompt), start.tokenizer.decode(answer))
            for prompt, answer in demonstrate(task_set, stage, settings_of(config), silent)
        ]
    assert (lengths.rows, lengths.dropped) == (len(rows), 0)
    for number, text in enumerate(asked):
        assert f'"read_{number}"' in text
        assert text.count('"read_') == 1
    assert len(shown) == 2 * len(rows)
    for number, (before, answer) in enumerate(shown[1::2]):
        assert f"elephant {number}" in before
        assert answer.startswith(f"page {number}")
