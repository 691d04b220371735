"""The two files that docs/agents.md shows, as they stand there."""

import re
from pathlib import Path

import pytest

from rl.environments.config_file import read_agent_file
from rl.models import Episode, TrainingRun
from tests.commands.agents import trained

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^`([\w.]+)`, for [\w ]+:\n\n```yaml\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)


def test_there_is_one_for_programs_and_one_for_questions():
    assert [name for name, _ in EXAMPLES] == ["code.yaml", "search.yaml"]


@pytest.mark.learn
@pytest.mark.django_db
@pytest.mark.parametrize(("name", "text"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_it_trains_a_version(name: str, text: str, data_dir: Path, tmp_path: Path):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    settings = read_agent_file(path)
    document = trained(path, "--max-steps", "1", "--max-new-tokens", "16")
    assert (document["version"], document["steps"]) == ("tasks-v1", 1)
    run = TrainingRun.objects.get()
    assert (run.agent.name, run.config["environment"]["type"]) == (settings.agent, settings.environment.type)
    assert Episode.objects.filter(run=run, split="train").count() == 8
    assert Episode.objects.filter(run=run, split="eval").count() == 2 * 12
