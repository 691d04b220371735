from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from rl.models import Agent, Trace
from tests.dataset_builder.ratings import rate


@pytest.mark.django_db
def test_rows_are_text_as_toolbox_writes_them(agent: Agent, tmp_path: Path):
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Sort it"}]
    rate(Trace.objects.create(agent=agent, prompt=prompt, response="sorted(x)"), 1)
    rate(Trace.objects.create(agent=agent, prompt=prompt[1:], response="No."), 0)
    earlier = [prompt[1], {"role": "assistant", "content": "How?"}, {"role": "user", "content": "Up"}]
    rate(Trace.objects.create(agent=agent, prompt=earlier, response="Done."), 1)
    options = ["--agent", agent.name, "--format", "toolbox_kto", "--split", "all"]
    call_command("export_training_data", *options, "--output", str(tmp_path / "kto.jsonl"), stdout=StringIO())
    rows = [json.loads(line) for line in (tmp_path / "kto.jsonl").read_text().splitlines()]
    assert sorted(rows, key=lambda row: row["prompt"]) == [
        {"prompt": "Be brief.\n\nUser: Sort it", "completion": "sorted(x)", "label": True},
        {"prompt": "User: Sort it", "completion": "No.", "label": False},
        {"prompt": "User: Sort it\n\nAssistant: How?\n\nUser: Up", "completion": "Done.", "label": True},
    ]
