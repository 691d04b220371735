"""docs/coming-from/n3.md: each line of it is done, on a tiny model."""

import json
from pathlib import Path

import pytest

from rl.models import Agent
from tests.from_systems.page import Reader, Step, path_of

PAGE = path_of("n3")


@pytest.mark.learn
@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_every_line_of_the_page_can_be_done(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    agent = Agent.objects.create(name="support-chat", base_model="tiny", response_length=8)
    example = json.loads(PAGE.read_text().split("```json\n")[1].split("```")[0])
    rows = [{**example, "prompt": f"Question {n}?", "score": (n % 3) / 2} for n in range(30)]
    (tmp_path / "feedback.jsonl").write_text("\n".join(json.dumps(row) for row in [example, *rows]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BASE_MODEL", "tiny")

    def before(step: Step) -> None:
        if step.kind == "python":
            monkeypatch.setenv("MODEL_PATH", reader.answers[-2]["modelPath"])

    reader = Reader(before=before)
    reader.follow(PAGE)
    policies = reader.answers[-1]
    assert [policy["version"] for policy in policies] == ["v32", "reward-v32"]
    assert policies[0]["trainedOn"]["rewardMean"] is not None
    assert agent.traces.count() == 32


def test_the_page_stays_short():
    assert len(PAGE.read_text().splitlines()) < 190
