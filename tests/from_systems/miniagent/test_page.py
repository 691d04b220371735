"""Every file, command and line of docs/coming-from/miniagent.md."""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from rl.models import Agent, Episode, TrainingRun

PAGE = (Path(settings.BASE_DIR) / "docs/coming-from/miniagent.md").read_text()
COMMANDS = [
    " ".join(command.split())
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for command in block.replace("\\\n", " ").removeprefix("$ python3 manage.py ").split("\n$ python3 manage.py ")
]
SHORTEST = min(COMMANDS, key=len)
YAML = dict(re.findall(r"`(\w+\.yaml)`:\n\n```yaml\n(.*?)```", PAGE, re.DOTALL))
CODE, SEARCH = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def lines(task: dict[str, Any], count: int, first: int = 0) -> str:
    """The task of the page, and others of its shape."""
    field = "prompt" if "prompt" in task else "question"
    tasks = [
        {**task, "task_id": f"{task['task_id']}-{number}", field: f"{task[field]} ({number})"}
        for number in range(first, first + count)
    ]
    return "".join(json.dumps(row) + "\n" for row in tasks)


@pytest.fixture
def owners_folder(tmp_path: Path, tiny_base: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").symlink_to(tiny_base)
    for folder, task in (("code_tasks", CODE), ("search_tasks", SEARCH)):
        path = tmp_path / "dataset" / folder
        path.mkdir(parents=True)
        (path / "train.jsonl").write_text(lines(task, 4))
        (path / "eval.jsonl").write_text(lines(task, 2, first=9))
    for name, content in YAML.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.mark.learn
@pytest.mark.django_db
@pytest.mark.usefixtures("timed_before")
@pytest.mark.parametrize(
    "command", [pytest.param(c, marks=() if c == SHORTEST else pytest.mark.slow) for c in COMMANDS]
)
def test_every_command_does_what_the_page_says(
    data_dir: Path, owners_folder: Path, tiny_base: Path, command: str, capsys: pytest.CaptureFixture[str]
):
    name, *options = shlex.split(command)
    if "cuda:0" in options and not has_gpu():
        with pytest.raises(CommandError, match="there is no device cuda:0 here: leave it out, or take cpu"):
            call_command(name, *options)
        return
    output = StringIO()
    call_command(name, *options, "--json", stdout=output)
    document = json.loads(output.getvalue())
    kind = "search" if "search.yaml" in options else "code_exec"
    shown = int(options[options.index("--preview-tasks") + 1]) if "--preview-tasks" in options else 3
    assert len(document.get("tasks", ())) == shown
    assert "read as a file of Miniagent" in capsys.readouterr().err
    if "--dry-run" in options:
        assert (document["config"]["environment"]["options"]["reward_on"], Agent.objects.count()) == ("tool_call", 0)
        return
    run = TrainingRun.objects.get()
    assert (run.state, run.step) == (TrainingRun.State.SUCCEEDED, 1)
    assert run.options["base_model"] == str(tiny_base)
    assert run.options["dataset_dir"] == str(owners_folder / "dataset" / f"{kind.removesuffix('_exec')}_tasks")
    assert set(Episode.objects.values_list("environment", flat=True)) == {kind}
    assert Episode.objects.filter(run=run, split="train").count() == 4
    assert document["evaluation"]["prompts"] == 2


def test_the_page_has_its_files_and_commands():
    assert (len(COMMANDS), sorted(YAML), len(PYTHON)) == (6, ["code.yaml", "search.yaml"], 1)
    assert len(PAGE.splitlines()) < 150


@pytest.mark.learn
def test_every_line_of_python_runs(owners_folder: Path):
    output = StringIO()
    with redirect_stdout(output):
        exec(compile(PYTHON[0], "miniagent.md", "exec"), {})
    assert output.getvalue() == "1.0 True all 2 tests passed\n"


def documented_keys() -> Iterator[str]:
    rows = PAGE.partition("## What your keys mean")[2].partition("##")[0].splitlines()
    for row in rows:
        if row.startswith("| `"):
            yield from re.findall(r"`([\w.]+)", row.split("|")[1])


def test_every_key_of_the_table_is_one_that_is_read():
    from rl.from_systems.miniagent.config_file import KEYS

    known = {key for keys in KEYS.values() for key in keys} | {*KEYS, "api_key", "reference_solution", "ground_truth"}
    assert {key for key in documented_keys() if not set(key.split(".")) <= known} == {"tools.search.corpus"}
