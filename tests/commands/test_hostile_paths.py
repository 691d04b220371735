"""Every option of every command that may name a file: whatever lies there, the command ends, and says so in one line."""

import os
import re
import socket
from argparse import Action, ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import CommandError

from rl.management.base import RatchetCommand
from rl.models import Agent
from tests.dataset_builder.ratings import rate_prompts
from tests.refusals import refusal

AGENT, TINY = ("--agent", "support-chat"), ("--base-model", "tiny")
TRAINS = ("train", "train_dpo", "train_kto", "train_grpo", "train_ppo", "train_mpo", "train_reward_model")
FROM_FILES = ("train_dpo", "train_mpo", "train_reward_model")
TILL = ("train_agent", "--agent", "till", "--environment", "code_exec")
READ: tuple[tuple[str, ...], ...] = (
    ("restore",),
    ("sandbox", "run"),
    ("sandbox", "run", __file__, "--stdin"),
    ("import_traces", "--format", "trl", "--agent", "new"),
    ("import_traces", "--agent", "new", "--data-file"),
    ("import_traces", "--agent", "new", "--data-file", __file__, "--ratings-file"),
    ("evaluate_model", *AGENT, "--checkpoint"),
    ("evaluate_model", *AGENT, "--checkpoint", "adapter", "--test-data"),
    ("export_model", "--checkpoint"),
    ("run_pipeline", *AGENT, "--base-model"),
    ("agent", "create", "another", "--model"),
    ("train_agent", "--agent", "till", "--config"),
    (*TILL, *TINY, "--dataset-dir"),
    (*TILL, "--model-path"),
    (*TILL, "--base-model"),
    (*TILL, *TINY, "--accelerate-config"),
    *((name, *AGENT, "--base-model") for name in TRAINS),
    *((name, *AGENT, "--resume") for name in TRAINS),
    *((name, *AGENT, *TINY, "--accelerate-config") for name in TRAINS),
    *((name, *AGENT, *TINY, "--source", "file", "--data-file") for name in FROM_FILES),
    *((name, *AGENT, *TINY, "--source", "file", "--data-file", __file__, "--ratings-file") for name in FROM_FILES),
    *((name, *AGENT, *TINY, "--reward-model") for name in ("train_grpo", "train_ppo")),
)
"""What stands on the command line before the path of a file or a folder that is read."""
WRITTEN = {"folder", "output", "output_dir"}
"""Options that name what is made: those of ``backup``, of exports and of reports."""
NAMES = {
    *("quantization", "judge", "format", "environment", "environment_name", "agent", "train_split", "eval_split"),
    *("hf_model_name", "name", "pythonpath"),
}
"""Options whose help speaks of files, and that take a name."""
SAYS_FILE = re.compile(r"\b(files?|folders?|directory|JSON lines|\w+\.json|hub id)\b")


def options(parser: ArgumentParser) -> Iterator[Action]:
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for subparser in action.choices.values():
                yield from options(subparser)
        elif action.nargs != 0 and action.choices is None and action.type not in (int, float):
            yield action


def commands() -> Iterator[tuple[str, RatchetCommand]]:
    for name, app in sorted(get_commands().items()):
        command = load_command_class(app, name) if app == "rl" else None
        if isinstance(command, RatchetCommand):
            yield name, command


@pytest.fixture
def devices(tmp_path: Path) -> Iterator[list[str]]:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        yield ["/dev/zero", "/dev/full", "/dev/tty0", *(str(tmp_path / name) for name in ("pipe", "link", "socket"))]


def test_no_option_of_a_command_takes_a_device_a_pipe_or_a_socket(devices: list[str]):
    walked = 0
    for name, command in commands():
        for action in options(command.create_parser("manage.py", name)):
            for path in filter(os.path.exists, devices):
                given: Any = [path] if action.nargs in ("*", "+") else path
                arguments = {"json": False, "verbosity": 0, "no_color": True, action.dest: given}
                with pytest.raises(CommandError, match="is not a file but a pipe or a device") as caught:
                    command.handle(**arguments)
                assert caught.value.returncode == 2
                walked += 1
    assert walked > 500


def test_every_option_that_names_a_file_is_walked():
    walked = {line[-1] for line in READ} | {"backup", "file", "paths"}
    missed = {
        f"{name} {action.dest}"
        for name, command in commands()
        for action in options(command.create_parser("manage.py", name))
        if SAYS_FILE.search(action.help or "") and action.dest not in WRITTEN | NAMES
        if not walked & {*action.option_strings, action.dest}
    }
    assert missed == set()


@pytest.mark.learn
@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.parametrize("line", READ, ids=" ".join)
def test_what_is_no_such_file_is_one_line(
    line: tuple[str, ...], agent: Agent, data_dir: Path, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
):
    rate_prompts(agent, 20)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "round").symlink_to(tmp_path / "round")
    (tmp_path / "folder").mkdir()
    (tmp_path / "long").touch()
    os.truncate(tmp_path / "long", 100_000_000)
    failures = []
    for name in ("dangling", "round", "folder", "long", "nowhere", "long/x", "x" * 5000):
        try:
            refusal(*line, tmp_path / name)
        except BaseException as error:
            failures.append(f"{name[:20]}: {type(error).__name__}: {str(error)[:300]}")
    assert not failures, "\n".join(failures)
