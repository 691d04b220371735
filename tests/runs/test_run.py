"""The road of a run from ratings to a version, with real training on the tiny model."""

import gc
import json
from dataclasses import replace
from importlib.util import find_spec

import pytest

from rl import dataset_builder
from rl.base import logs
from rl.base.errors import Interrupted, NotEnoughData, RunConflict, UsageError
from rl.base.locks import device_lock
from rl.base.manner import Manner
from rl.base.records import TrainingResult, silent
from rl.config.authority import Owner
from rl.config.training_job import LEARNED_ROWS
from rl.demo.load import load_demo
from rl.evaluation.evaluate import evaluate
from rl.models import Agent, Artifact, Deployment, Evaluation, Feedback, MetricPoint, ModelVersion, TrainingRun
from rl.runs import run as runs
from rl.runs import supervisor
from rl.runs.stage_log import Costs
from rl.serving.instructions import instruct
from rl.serving.promotion import promote

pytestmark = pytest.mark.django_db
State = TrainingRun.State
QUICK = {
    "epochs": 1.0,
    "batch_size": 8,
    "gradient_accumulation": 1,
    "learning_rate": 1e-3,
    "save_steps": 4,
    "lora_r": 4,
}


@pytest.fixture
def agent(data_dir) -> Agent:
    agent = load_demo("tiny")
    overrides = {**agent.training_overrides, **QUICK}
    Agent.objects.filter(pk=agent.pk).update(training_overrides=overrides, response_length=4)
    agent.refresh_from_db()
    return agent


def claimed(agent: Agent, steps: int = 0, **options) -> TrainingRun:
    """``steps``: no more than these, unless 0."""
    config = agent.training_config().with_overrides({"max_steps": steps} if steps else {})
    data = dataset_builder.DataOptions(pair_type="preference", val_split=0.25, **options.pop("data", {}))
    asked = runs.RunOptions(data=data, **options)
    run = runs.create(agent, method_name="dpo", config=config, options=asked, by=Owner.OPERATOR)
    assert run.claim()
    return run


@pytest.mark.learn
def test_lines_of_the_log_name_the_run_while_it_is_worked_on(agent, monkeypatch):
    seen = []
    monkeypatch.setattr(runs, "_work", lambda run, monitor: seen.append(logs.run_id.get()))
    run = claimed(agent)
    runs.execute(run, silent)
    assert (seen, logs.run_id.get()) == ([str(run.pk)], "")


@pytest.mark.learn
@pytest.mark.slow
def test_a_run_ends_with_a_measured_version_and_its_adapter(agent, data_dir):
    from transformers import PreTrainedModel

    run = claimed(agent)
    events: list[str] = []
    alive: list[int] = []

    def listen(event, values):
        events.append(event)
        if values.get("name") == "evaluating":
            alive.append(sum(issubclass(type(one), PreTrainedModel) for one in gc.get_objects()))

    gc.collect()
    evaluation = runs.execute(run, listen)
    costs = Costs.read(run.directory)
    assert {"start-up", "loading the model", "steps", "evaluation", "fresh answers"} <= set(costs.seconds)
    assert costs.peak_memory_bytes > 10**8
    run.refresh_from_db()
    assert alive == [0], "the model that was trained is gone before another is loaded to be measured"
    version = run.version
    assert (run.state, run.error, run.stage) == (State.SUCCEEDED, "", "")
    assert version.name == "v1"
    assert evaluation.pairs == run.training_set.heldout_rows > 10
    adapter = version.artifacts.get(kind=Artifact.Kind.ADAPTER)
    assert (data_dir / adapter.path / "adapter_model.safetensors").stat().st_size < adapter.size_bytes
    assert MetricPoint.objects.filter(run=run).count() == run.step == run.total_steps > 5
    assert {"loss", "accuracy"} <= MetricPoint.objects.filter(run=run).first().values.keys()
    assert {"stage", "step"} <= set(events)
    assert version.stage in (ModelVersion.Stage.EVALUATED, ModelVersion.Stage.REJECTED)
    assert not Feedback.objects.filter(agent=agent, is_current=True, training_set=None).exists()
    promoted = evaluation.verdict == Evaluation.Verdict.PROMOTE
    assert (Deployment.champion(agent) == version) is promoted
    result = TrainingResult.load(run.directory / "result.json")
    points = list(MetricPoint.objects.filter(run=run).order_by("step"))
    assert result.loss_history == [point.values["loss"] for point in points]
    assert (run.directory / "report.png").is_file() == bool(find_spec("matplotlib"))


@pytest.mark.learn
@pytest.mark.slow
def test_a_run_that_does_not_fit_into_memory_ends_well_and_says_with_what(agent, monkeypatch):
    import torch

    from rl.training import dpo

    step = dpo._Trainer.training_step

    def training_step(self, *arguments, **options):
        if self.args.per_device_train_batch_size > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return step(self, *arguments, **options)

    monkeypatch.setattr(dpo._Trainer, "training_step", training_step)
    run = claimed(agent, steps=2)
    runs.execute(run, silent)
    run.refresh_from_db()
    assert (run.state, run.config["batch_size"]) == (State.SUCCEEDED, 8)
    assert "once more with batch_size 4, gradient_accumulation 2" in run.log_path.read_text()
    assert TrainingResult.load(run.directory / "result.json").changed == {"batch_size": 4, "gradient_accumulation": 2}
    assert MetricPoint.objects.filter(run=run).first().values["batch_size"] == 4


@pytest.mark.learn
@pytest.mark.slow
def test_a_run_that_sweeps_trains_with_the_rate_that_it_stores(agent, monkeypatch):
    monkeypatch.setattr("rl.runs.sweep.FEWEST_STEPS", 4)
    run = claimed(agent, steps=6, sweep=True)
    runs.execute(run, silent)
    run.refresh_from_db()
    trials = json.loads((run.directory / "sweep.json").read_text())["trials"]
    assert [trial["rate"] for trial in trials] == [5e-4, 1e-3, 2e-3]
    assert run.config["learning_rate"] == min(trials, key=lambda trial: trial["loss"])["rate"]
    assert (run.config["automatic"], run.step, run.metric_points.count()) == ([], 6, 6)


@pytest.mark.learn
def test_what_is_trained_while_an_instruction_is_in_use_learns_under_it_and_is_measured_against_it(agent):
    Deployment.objects.create(agent=agent, target="openai", url="http://127.0.0.1:9", model_name="m")
    promote(agent, instruct(agent, "Be brief."))
    run = claimed(agent, 1)
    evaluation = runs.execute(run, silent)
    made, told = evaluation.version, evaluation.against
    assert (made.manner, made.is_worded) == (Manner(instruction="Be brief."), False)
    assert (told, told.is_worded) == (made.parent, True)
    shown = json.loads((run.directory / LEARNED_ROWS).read_text())["rows"]
    assert all("\n\nBe brief.<|im_end|>" in row["prompt"] for row in shown)
    measured = evaluate(told, run.training_set, silent)  # by the gate, as what was trained
    assert (measured.version, measured.pairs) == (told, evaluation.pairs)


@pytest.mark.learn
def test_an_instruction_that_is_baked_in_is_told_no_more_and_the_version_is_measured_against_it(agent, monkeypatch):
    texts = ["It comes tomorrow.", "It is on its way."]
    monkeypatch.setattr("rl.training.judged_rows.Sampler.ask", lambda _, rows, rated: [(row, texts) for row in rows])
    with pytest.raises(UsageError, match="is told nothing that could be baked in"):
        agent.training_config("sft").with_overrides({"bake_in": True})
    Deployment.objects.create(agent=agent, target="openai", url="http://127.0.0.1:9", model_name="m")
    promote(agent, instruct(agent, "Be brief."))
    config = agent.training_config("sft").with_overrides({"bake_in": True, "max_steps": 1})
    asked = runs.RunOptions(data=dataset_builder.DataOptions(pair_type="preference", val_split=0.25))
    with pytest.raises(UsageError, match="leave out --num-processes and --sweep"):
        runs.create(agent, method_name="sft", config=config, options=replace(asked, sweep=True), by=Owner.OPERATOR)
    run = runs.create(agent, method_name="sft", config=config, options=asked, by=Owner.OPERATOR)
    assert run.claim()
    evaluation = runs.execute(run, silent)
    assert (evaluation.version.manner, evaluation.against.manner) == (Manner(), Manner(instruction="Be brief."))
    shown = json.loads((run.directory / LEARNED_ROWS).read_text())["rows"]
    assert not any("Be brief." in row["prompt"] for row in shown)
    assert evaluation.pairs


@pytest.mark.learn
@pytest.mark.slow
def test_an_interrupted_run_is_cancelled_and_resumes_to_the_end(agent):
    run = claimed(agent)

    def stop_at_six(event, values):
        if event == "step" and values.get("metrics") and values["step"] == 6:
            raise Interrupted("enough")

    with pytest.raises(Interrupted):
        runs.execute(run, stop_at_six)
    run.refresh_from_db()
    assert (run.state, run.version) == (State.CANCELLED, None)
    assert Feedback.objects.filter(training_set=None, agent=agent).exists()
    MetricPoint.objects.filter(run=run, step__gt=4).delete()  # a SIGKILL may leave steps in the checkpoint alone
    steps: list[int] = []
    runs.execute(supervisor.claim_stopped(run), lambda event, values: steps.append(values.get("step", 0)))
    run.refresh_from_db()
    assert (run.state, run.attempt) == (State.SUCCEEDED, 2)
    assert min(step for step in steps if step) > 5
    assert [point.step for point in run.metric_points.order_by("step")] == list(range(1, run.total_steps + 1))
    assert run.version is not None


@pytest.mark.database
def test_too_few_pairs_fail_the_run_and_leave_its_ratings_waiting(agent):
    run = claimed(agent, data={"min_samples": 100_000})
    with pytest.raises(NotEnoughData, match="100000 are needed"):
        runs.execute(run, silent)
    run.refresh_from_db()
    assert run.state == State.FAILED
    assert "needed" in run.error
    assert not Feedback.objects.filter(agent=agent, training_set__isnull=False).exists()


def test_a_second_run_of_an_agent_is_refused_while_one_is_active(agent):
    claimed(agent)
    with pytest.raises(RunConflict, match="in progress"):
        claimed(agent)


def test_an_unknown_method_is_refused_before_a_run_is_made(agent):
    data = dataset_builder.DataOptions()
    with pytest.raises(UsageError, match="dpo"):
        runs.create(agent, method_name="dop", config=agent.training_config(), options=runs.RunOptions(data=data))
    assert not TrainingRun.objects.exists()


def test_a_base_model_that_is_none_fails_the_run_with_its_reason(agent, tmp_path):
    run = claimed(agent, base_model=str(tmp_path / "nothing"))
    with pytest.raises(Exception, match="no base model at"):
        runs.execute(run, silent)
    run.refresh_from_db()
    assert (run.state, run.version) == (State.FAILED, None)


def test_a_run_that_was_taken_over_writes_nothing_more(agent):
    run = claimed(agent)
    TrainingRun.objects.get(pk=run.pk).take_over()
    with pytest.raises(RunConflict):
        runs.execute(run, silent)
    run.refresh_from_db()
    assert (run.state, run.attempt, run.error) == (State.RUNNING, 2, "")


def test_a_run_that_is_taken_over_while_its_data_is_prepared_keeps_the_data_of_the_new_attempt(agent, monkeypatch):
    run = claimed(agent)
    freeze = dataset_builder.freeze

    def slow_freeze(*arguments, **options):
        frozen = freeze(*arguments, **options)
        TrainingRun.objects.get(pk=run.pk).take_over()
        return frozen

    monkeypatch.setattr(dataset_builder, "freeze", slow_freeze)
    with pytest.raises(RunConflict):
        runs.execute(run, silent)
    run.refresh_from_db()
    assert (run.attempt, run.training_set) == (2, None)


def test_a_run_waits_for_its_device_and_can_be_cancelled_meanwhile(agent, data_dir, monkeypatch):
    run = claimed(agent)
    stages: list[str] = []

    def cancel_when_waiting(event, values):
        stages.append(str(values.get("name")))
        if stages[-1] == "waiting for the device":
            TrainingRun.objects.get(pk=run.pk).cancel()

    with device_lock(data_dir / "locks", "cpu", pytest.fail), pytest.raises(Interrupted, match="cancelled"):
        runs.execute(run, cancel_when_waiting)
    run.refresh_from_db()
    assert (run.state, run.version) == (State.CANCELLED, None)
    assert "waiting for the device" in stages


def test_options_survive_the_database(agent):
    options = runs.RunOptions(data=dataset_builder.DataOptions(min_samples=3), export=True, quantization="q4_k_m")
    run = runs.create(agent, method_name="dpo", config=agent.training_config(), options=options)
    expected = replace(options, base_model="tiny", origins={"base_model": "agent"})
    assert runs.RunOptions.from_dict(TrainingRun.objects.get(pk=run.pk).options) == expected


@pytest.mark.database
def test_an_agent_that_gets_another_base_model_leaves_a_stopped_run_its_own(agent):
    agent.base_model = "owner/name"
    run = claimed(agent)
    Agent.objects.update(base_model="owner/another")
    assert runs.RunOptions.from_dict(TrainingRun.objects.get(pk=run.pk).options).base_model == "owner/name"


def test_a_folder_that_another_database_left_behind_is_not_resumed_from(agent, data_dir):
    last = claimed(agent)
    last.finish(State.FAILED)
    stale = data_dir / "runs" / str(last.pk + 1) / "checkpoint-9"
    stale.mkdir(parents=True)
    assert claimed(agent).directory == stale.parent
    assert not stale.exists()
