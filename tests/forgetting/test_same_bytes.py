"""A training without a forgotten person gives the same bytes as if they had never been there."""

from dataclasses import replace
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import pytest
import torch

from rl import dataset_builder
from rl.base.files import remove
from rl.base.records import silent
from rl.collect.feedback import write
from rl.forgetting.forget import forget
from rl.forgetting.records import find_person
from rl.lm.score_folder import score_folder
from rl.models import Agent, Trace, TrainingRun, TrainingSet
from rl.training import dpo
from tests.training.conftest import job

pytestmark = [pytest.mark.learn, pytest.mark.django_db]
ONE = dataset_builder.DataOptions(min_samples=1, val_split=0.2)


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def history(raters: tuple[str, ...]) -> Agent:
    """Raters take turns with each answer, so that whoever is missing leaves gaps in all numbers. Each asks something too."""
    agent = Agent.objects.create(name="support-chat")
    for number in range(12):
        asker = ("user:charlie", "user:alice", "user:bob")[number % 3]
        for value in (1, 0) if asker in raters else ():
            answer = Trace.objects.create(
                id=uuid5(NAMESPACE_URL, f"{number}-{value}"),
                agent=agent,
                prompt=[{"role": "user", "content": f"Where is parcel {number}?"}],
                response=f"{'Thank you' if value else 'Perhaps it'}, look at page {number}.",
                unit=asker,
            )
            for rater in raters:
                liked = value if rater != "user:charlie" else 1 - value
                write.rate(answer, rater=rater, scale="thumb", value=liked, source="test")
    return agent


def train(agent: Agent, base: Path, folder: Path) -> tuple[str, bytes]:
    frozen = dataset_builder.freeze(agent, ONE)
    folder.mkdir()
    task = replace(job(base, folder, precision="fp32"), train_rows=frozen.directory / "train.jsonl")
    result = dpo.train(task, silent)
    return frozen.content_hash, (result.weights_dir / "adapter_model.safetensors").read_bytes()


@pytest.mark.slow
def test_a_run_without_them_has_the_same_bytes_as_if_they_had_never_been_there(
    tiny_base, tmp_path, data_dir, one_thread
):
    agent = history(("user:alice", "user:charlie", "user:bob"))
    before = train(agent, tiny_base, tmp_path / "before")
    assert score_folder().is_dir()
    forget(find_person("user:charlie"), retrain=False)
    assert not score_folder().exists()
    forgotten = train(agent, tiny_base, tmp_path / "forgotten")
    TrainingRun.objects.all().delete()
    TrainingSet.objects.all().delete()
    agent.delete()
    remove(score_folder())
    never = train(history(("user:alice", "user:bob")), tiny_base, tmp_path / "never")
    assert forgotten[0] == never[0] != before[0]
    assert forgotten[1] == never[1]
