"""A process may be killed between any two statements: the next attempt ends with one version, as if nothing had been."""

import pytest

from rl import dataset_builder
from rl.base.records import silent
from rl.config.authority import Owner
from rl.demo.load import load_demo
from rl.models import Artifact, Deployment, Evaluation, Feedback, ModelVersion, TrainingRun
from rl.runs import after_gate
from rl.runs import run as runs
from rl.runs.monitor import Monitor
from rl.versions import versions
from tests.guard_limits import NOISE_ALLOWED

pytestmark = [pytest.mark.learn, pytest.mark.django_db, pytest.mark.slow]


class Killed(BaseException):
    pass


POINTS = {
    "the adapter is written": (runs.TrainingResult, "save", "before"),
    "the version is registered": (versions, "register", "after"),
    "the file is exported": (after_gate.release, "export_version", "after"),
    "the version is promoted": (Deployment, "promote", "after"),
}


@pytest.fixture
def run(data_dir) -> TrainingRun:
    agent = load_demo("tiny")
    agent.response_length = 16  # each evaluation lets the models answer
    agent.guard_limits = NOISE_ALLOWED
    agent.save()
    config = agent.training_config().with_overrides({"save_steps": 10})
    data = dataset_builder.DataOptions(pair_type="preference", val_split=0.3)
    options = runs.RunOptions(data=data, export=True, quantization="f16", output_dir=str(data_dir / "copy"))
    run = runs.create(agent, method_name="dpo", config=config, options=options, by=Owner.OPERATOR)
    run.claim()
    return run


def work_until_killed(run: TrainingRun, monkeypatch, point: str) -> None:
    owner, name, when = POINTS[point]
    original = getattr(owner, name)

    def kill(*arguments, **options):
        if when == "after":
            original(*arguments, **options)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, kill)
        with pytest.raises(Killed):
            runs._work(run, Monitor(run, (silent,)))


def test_a_run_that_is_killed_at_every_point_ends_as_if_nothing_had_been(run, monkeypatch):
    """One attempt after the other gets a point further."""
    for point in POINTS:
        work_until_killed(run, monkeypatch, point)
        run = TrainingRun.objects.get(pk=run.pk)
        assert run.take_over()
    evaluation = runs.execute(run, silent)
    version = ModelVersion.objects.get()
    assert (run.state, run.version, evaluation.version) == (TrainingRun.State.SUCCEEDED, version, version)
    assert (evaluation.verdict, evaluation.against) == (Evaluation.Verdict.PROMOTE, None)
    assert Deployment.champion(run.agent) == version
    assert {artifact.kind for artifact in version.artifacts.all()} == {Artifact.Kind.ADAPTER, Artifact.Kind.GGUF}
    assert versions.weights_directory(version).is_dir()
    assert version.stage == ModelVersion.Stage.EXPORTED
    assert not Feedback.objects.filter(training_set=None, is_current=True).exclude(kind="retraction").exists()
