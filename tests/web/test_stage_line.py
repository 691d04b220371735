from __future__ import annotations

import pytest

from rl.models import Agent, TrainingRun
from rl.runs.stage_log import Stages
from rl.web.stage_line import stage_line
from tests.admin.records import make_loop, make_run

S = TrainingRun.State


def words(run: TrainingRun, *names: str) -> list[str]:
    return [step.progress.value for step in stage_line(run, Stages(names, None))]


@pytest.mark.parametrize(
    ("names", "step"),
    [
        (["preparing data", "loading the base model"], 0),
        (["preparing data", "scoring under the base model"], 1),
        (["preparing data", "training"], 2),
        (["training", "evaluating", "loading the base model"], 3),
        (["training", "evaluating", "judging the answers", "fresh answers: new"], 4),
        (["training", "exporting GGUF q8_0", "convert"], 5),
        (["training", "exporting GGUF q8_0", "starting llama.cpp"], 6),
    ],
)
def test_a_run_is_at_the_furthest_step_that_it_has_reached(agent: Agent, names: list[str], step: int) -> None:
    shown = words(make_run(agent, S.RUNNING, stage=names[-1][:32]), *names)
    assert shown == ["done"] * step + ["now"] + ["waiting"] * (6 - step)


def test_a_run_that_failed_shows_where(agent: Agent) -> None:
    assert words(make_run(agent, S.FAILED), "preparing data", "training")[1:4] == ["done", "stopped", "waiting"]


def test_a_run_that_ended_well_shows_what_was_left_out(agent: Agent) -> None:
    assert words(make_loop(agent)) == ["done"] * 7
    assert words(make_run(agent))[5:] == ["skipped", "skipped"]
    assert set(words(make_run(agent, S.QUEUED))) == {"waiting"}
