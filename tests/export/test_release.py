"""What a file is called and which base model an adapter belongs to, before anything heavy is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl.errors import UsageError
from rl.export.release import base_of_adapter, default_name
from rl.models import Agent, ModelVersion
from rl.slugs import check_slug

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("agent_name", ["support-chat", "a" * 64, "a" * 53 + "-" + "b" * 10])
def test_the_name_of_a_file_is_usable_however_long_the_agents_name_is(agent_name):
    agent = Agent.objects.create(name=agent_name)
    agent.full_clean()
    version = ModelVersion.objects.create(agent=agent, name="v100000.2", base_model="tiny", feedback_count=1)
    name = default_name(version)
    assert check_slug(name).endswith("-v100000.2")
    assert name.startswith(agent_name[:53])


def test_a_checkpoint_that_is_a_file_is_one_clear_error(tmp_path: Path):
    (tmp_path / "adapter_model.safetensors").write_text("")
    with pytest.raises(UsageError, match="is no adapter"):
        base_of_adapter(tmp_path / "adapter_model.safetensors")


def test_a_damaged_adapter_configuration_is_one_clear_error(tmp_path: Path):
    (tmp_path / "adapter_config.json").write_text("[]")
    with pytest.raises(UsageError, match="cannot be read"):
        base_of_adapter(tmp_path)
