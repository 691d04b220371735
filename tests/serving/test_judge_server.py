"""Judges in processes of their own: real ones on the tiny model, and light ones where only the process is the point."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from rl.base.errors import UsageError
from rl.models import Agent, Deployment, Experiment, LabelModel, TrainingRun
from rl.serving import forecast, judge_process, judge_server
from rl.serving.experiments import lifecycle
from rl.serving.experiments.lifecycle import Variant
from rl.serving.gateway.best_of import Unjudged, rate
from rl.serving.gateway.routing import KnownJudge
from rl.serving.judge_process import end_judge, is_alive, known_judges, path_of, read_started
from rl.serving.judge_server import set_best_of
from tests.serving import light_judge
from tests.serving.judged import make_judge
from tests.waiting import until

pytestmark = pytest.mark.learn

PROMPT = [{"role": "user", "content": "Where is my parcel?"}]
SHORT, LONG = "Here.", "It is on its way to you, and you will have it tomorrow."
NOTHING = {"started": 0, "given_up": 0, "ended": 0}


@pytest.fixture(autouse=True)
def _nothing_is_left(data_dir: Path) -> Iterator[None]:
    yield
    for number in known_judges():
        end_judge(number)


@pytest.fixture
def wanting(agent: Agent, tiny_base: Path) -> Agent:
    """With a deployment of which four answers are asked."""
    agent.base_model = str(tiny_base)
    agent.save()
    Deployment.objects.create(agent=agent, target="openai", url="http://127.0.0.1:9", model_name="m", best_of=4)
    return agent


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_process, "MODULE", light_judge.__name__)


def ask(model: LabelModel, *answers: str) -> list[float]:
    judge = KnownJudge(path_of(model.agent_id, ".sock"), str(model.path), model.pk)
    return asyncio.run(rate(judge, PROMPT, answers))


def process_of(agent: Agent) -> psutil.Process:
    started = read_started(agent.pk)
    assert started is not None
    return psutil.Process(started.pid)


@pytest.mark.slow
def test_a_judge_rates_answers_by_the_newest_label_model_and_for_its_owner_alone(
    wanting: Agent, tiny_base: Path, tmp_path: Path, settings: Any
):
    settings.DATA_DIR = tmp_path / ("long-name-" * 12)  # is no hindrance to its socket
    likes_long = make_judge(wanting, tiny_base)
    assert judge_server.start(wanting) == ""
    check_its_taste(wanting, tiny_base, likes_long)
    check_that_it_refuses(wanting, tiny_base)
    check_that_it_is_its_owners_alone_and_knows_no_secret(wanting)


def check_its_taste(wanting: Agent, tiny_base: Path, likes_long: LabelModel) -> None:
    short, long = ask(likes_long, SHORT, LONG)
    assert long > short
    assert ask(likes_long) == []
    likes_short = make_judge(wanting, tiny_base, taste=-1.0)
    before = process_of(wanting).pid
    assert judge_server.supervise() == NOTHING
    short, long = ask(likes_short, SHORT, LONG)
    assert short > long
    assert process_of(wanting).pid == before
    assert ask(likes_long, SHORT) == pytest.approx([-value for value in ask(likes_short, SHORT)])


def check_that_it_refuses(wanting: Agent, tiny_base: Path) -> None:
    """And rates the next."""
    broken = make_judge(wanting, tiny_base)
    broken.path.write_bytes(b"no weights")
    with pytest.raises(Unjudged, match="not the weights of a judge"):
        ask(broken, SHORT)
    wanting.base_model = "another"
    of_another = make_judge(wanting, tiny_base)
    with pytest.raises(Unjudged, match="learned with the base model another: run auto_label again"):
        ask(of_another, SHORT)
    wanting.refresh_from_db()
    assert len(ask(make_judge(wanting, tiny_base), SHORT)) == 1


def check_that_it_is_its_owners_alone_and_knows_no_secret(wanting: Agent) -> None:
    assert path_of(wanting.pk, ".sock").stat().st_mode & 0o777 == 0o600
    assert path_of(wanting.pk, ".sock").parent.stat().st_mode & 0o077 == 0
    process = process_of(wanting)
    assert "SECRET_KEY" not in process.environ()
    assert os.getsid(process.pid) == process.pid != os.getsid(0)
    assert [entry.laddr for entry in process.net_connections("inet")] == []


@pytest.mark.slow
def test_one_that_died_starts_again_and_one_that_nobody_wants_ends(wanting: Agent, tiny_base: Path, light: None):
    model = make_judge(wanting, tiny_base)
    assert judge_server.supervise() == {**NOTHING, "started": 1}
    assert judge_server.supervise() == NOTHING
    process = process_of(wanting)
    process.kill()
    process.wait(60)
    assert "does not run: the queue starts it" in judge_server.find_problem(wanting)
    assert judge_server.supervise() == {**NOTHING, "started": 1}
    until(lambda: judge_server.find_problem(wanting) == "")
    assert len(ask(model, SHORT)) == 1
    set_best_of(wanting, None, 1)
    assert judge_server.supervise() == {**NOTHING, "ended": 1}
    assert (is_alive(wanting.pk), known_judges(), judge_server.find_problem(wanting)) == (False, [], "")


@pytest.mark.slow
def test_one_that_somebody_asks_for_by_itself_runs_for_a_while(
    wanting: Agent, tiny_base: Path, light: None, monkeypatch: pytest.MonkeyPatch
):
    Deployment.objects.update(best_of=1)
    make_judge(wanting, tiny_base)
    assert judge_server.supervise() == NOTHING
    with pytest.raises(Unjudged, match="does not answer yet"):
        forecast.compare(wanting, "Where is my parcel?", SHORT, LONG)
    until(lambda: judge_server.find_problem(wanting) == "")
    assert forecast.compare(wanting, "Where is my parcel?", SHORT, LONG) is True
    assert judge_server.supervise() == NOTHING
    monkeypatch.setattr(judge_server, "ASKED_SECONDS", -1.0)
    assert judge_server.supervise() == {**NOTHING, "ended": 1}


@pytest.mark.slow
def test_one_that_keeps_dying_is_given_up_with_its_reason_until_there_is_a_newer_label_model(
    wanting: Agent, tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(judge_server, "MAX_RESTARTS", 1)
    base = tmp_path / "base"
    shutil.copytree(tiny_base, base)
    (base / "model.safetensors").write_bytes(b"damaged")
    wanting.base_model = str(base)
    wanting.save()
    make_judge(wanting, tiny_base)
    for module in (light_judge.__name__, judge_process.MODULE):  # the last one that dies says why
        monkeypatch.setattr(judge_process, "MODULE", module)
        assert judge_server.supervise() == {**NOTHING, "started": 1}
        until(lambda: not is_alive(wanting.pk))
    assert judge_server.supervise() == {**NOTHING, "given_up": 1}
    assert judge_server.supervise() == NOTHING
    problem = judge_server.find_problem(wanting)
    assert problem.startswith("the judge of support-chat was given up after 1 restarts: ")
    assert "cannot load the model" in problem
    monkeypatch.setattr(judge_process, "MODULE", light_judge.__name__)
    make_judge(wanting, tiny_base)
    assert judge_server.supervise() == {**NOTHING, "started": 1}


@pytest.mark.slow
def test_another_base_model_starts_another_judge(wanting: Agent, tiny_base: Path, tmp_path: Path, light: None):
    make_judge(wanting, tiny_base)
    assert judge_server.start(wanting) == ""
    before = process_of(wanting).pid
    wanting.base_model = str(shutil.copytree(tiny_base, tmp_path / "another"))
    wanting.save()
    assert judge_server.start(wanting) == ""
    assert process_of(wanting).pid != before
    assert judge_server.suspend() == ["the judge of support-chat"]
    assert not is_alive(wanting.pk)


def test_without_a_label_model_that_may_be_used_there_is_no_judge(wanting: Agent, tiny_base: Path):
    with pytest.raises(UsageError, match="has no judge yet: run 'auto_label --agent support-chat'"):
        judge_server.require_judge(wanting)
    make_judge(wanting, tiny_base, accuracy=0.5)
    assert "tells good answers from bad ones no better than chance" in judge_server.find_problem(wanting)
    assert judge_server.supervise() == NOTHING


def test_nobody_judges_while_a_run_needs_the_memory(wanting: Agent, tiny_base: Path, settings):
    settings.UNLOAD_WHILE_TRAINING = True
    make_judge(wanting, tiny_base)
    TrainingRun.objects.create(agent=wanting, method="dpo", state=TrainingRun.State.RUNNING)
    assert judge_server.supervise() == NOTHING
    assert judge_server.find_problem(wanting) == "the judge of support-chat is out of memory while a run trains"


def test_an_arm_of_a_running_experiment_wants_a_judge_too(agent: Agent):
    arms = [(Variant(None), 1.0), (Variant(None, 4), 1.0)]
    experiment = lifecycle.create(agent, "best", arms, Variant(None))
    assert not judge_server.is_wanted(agent)
    lifecycle.start(experiment)
    assert judge_server.is_wanted(agent)
    Experiment.objects.update(state="stopped")
    assert not judge_server.is_wanted(agent)
