"""What a file is called and what it is made from, before anything heavy is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl.errors import UsageError
from rl.export import release
from rl.export.records import ExportJob
from rl.export.release import default_name
from rl.models import Agent, ModelVersion
from rl.records import silent
from rl.slugs import check_slug
from rl.training import versions

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("agent_name", ["support-chat", "a" * 64, "a" * 53 + "-" + "b" * 10])
def test_the_name_of_a_file_is_usable_however_long_the_agents_name_is(agent_name):
    agent = Agent.objects.create(name=agent_name)
    agent.full_clean()
    version = ModelVersion.objects.create(agent=agent, name="v100000.2", base_model="tiny", feedback_count=1)
    name = default_name(version)
    assert check_slug(name).endswith("-v100000.2")
    assert name.startswith(agent_name[:53])


@pytest.fixture
def whole(agent: Agent, data_dir: Path) -> ModelVersion:
    """The files of a version all of whose weights were trained; what is in them does not matter here."""
    version = ModelVersion.objects.create(agent=agent, name="v1", base_model="tiny", feedback_count=1)
    folder = versions.version_directory(version) / "model"
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).write_text("{}")
    return version


def test_a_whole_model_has_no_adapter_to_export(whole: ModelVersion):
    with pytest.raises(UsageError, match="a whole model: export it as merged or gguf"):
        release.export_version(whole, "lora", "f16", report=silent)


def test_a_whole_model_stands_for_itself(whole: ModelVersion, monkeypatch: pytest.MonkeyPatch):
    jobs: list[ExportJob] = []
    monkeypatch.setattr(release, "export_files", lambda name, job, report: jobs.append(job))
    directory = versions.weights_directory(whole)
    release.export_checkpoint(str(directory), "gguf", "f16", name="", output="", report=silent)
    assert (jobs[0].base_model, jobs[0].adapter_dir, jobs[0].name) == (str(directory), None, "model")
