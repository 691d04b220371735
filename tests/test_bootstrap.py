"""manage.py on a machine that has only Python: the base interpreter without its site-packages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from backend import bootstrap

BASE_PYTHON = getattr(sys, "_base_executable", sys.executable)


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A copy of what bootstrap sees, without an environment."""
    shutil.copy(settings.BASE_DIR / "manage.py", tmp_path)
    shutil.copytree(settings.BASE_DIR / "backend", tmp_path / "backend")
    for name in ("requirements.txt", "requirements-rl.txt"):
        shutil.copy(settings.BASE_DIR / name, tmp_path)
    commands = Path("rl", "management", "commands")
    shutil.copytree(settings.BASE_DIR / commands, tmp_path / commands)
    (tmp_path / "tests").mkdir()
    shutil.copy(settings.BASE_DIR / "tests" / "requirements.txt", tmp_path / "tests")
    return tmp_path


def bare(
    checkout: Path, *arguments: str, program: tuple[str, ...] = ("manage.py",)
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BASE_PYTHON, "-S", *program, *arguments],
        cwd=checkout,
        env={"PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def make_environment(checkout: Path, script: str) -> None:
    """With a script for the shell in the place of its Python."""
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)


@pytest.mark.process
@pytest.mark.parametrize("arguments", [("help", "migrate"), ("migrate",), ("train_dpo", "--agent", "x")])
def test_any_other_verb_without_django_names_quickstart_in_one_line(checkout, arguments):
    result = bare(checkout, *arguments)
    assert result.returncode == 1
    assert result.stderr == "Django is not installed. Start with: python3 manage.py quickstart\n"
    assert result.stdout == ""


@pytest.mark.process
@pytest.mark.parametrize("arguments", [(), ("help",), ("--help",), ("-h",)])
def test_the_overview_of_commands_needs_nothing(checkout, arguments):
    result = bare(checkout, *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("Ratchet: ")
    assert "  train_dpo            Train a LoRA adapter by direct preference optimisation (DPO)" in result.stdout


BENCHMARKS = ("-m", "benchmarks")


@pytest.fixture
def benchmarks(checkout) -> Path:
    (checkout / "benchmarks").mkdir()
    shutil.copy(settings.BASE_DIR / "benchmarks" / "__main__.py", checkout / "benchmarks")
    return checkout


@pytest.mark.process
def test_the_help_of_the_benchmarks_installs_nothing(benchmarks):
    result = bare(benchmarks, "--help", program=BENCHMARKS)
    assert (result.returncode, result.stderr) == (0, "")
    assert "usage: python3 -m benchmarks" in result.stdout
    assert not (benchmarks / ".venv").exists()


@pytest.mark.process
def test_the_benchmarks_install_what_they_need_and_run_inside_the_environment(benchmarks):
    make_environment(benchmarks, 'case "$*" in *pip*) echo "$*" >pip; exit;; esac\necho "inside: $@"\nexit 7')
    result = bare(benchmarks, "--only", "kto", program=BENCHMARKS)
    assert (result.returncode, result.stdout) == (7, "inside: -m benchmarks --only kto\n")
    assert (benchmarks / "pip").read_text().endswith("requirements-rl.txt\n")


@pytest.mark.process
@pytest.mark.parametrize("verb", ["quickstart", "test"])
def test_help_installs_nothing(checkout, verb):
    result = bare(checkout, verb, "--help")
    assert (result.returncode, "manage.py quickstart" in result.stdout) == (0, True)
    assert not (checkout / ".venv").exists()


@pytest.mark.process
def test_an_environment_that_is_there_is_used(checkout):
    make_environment(checkout, 'echo "inside: $@"\nexit 7')
    result = bare(checkout, "showmigrations", "rl")
    assert (result.returncode, result.stdout) == (7, "inside: manage.py showmigrations rl\n")


@pytest.mark.process
def test_a_signal_reaches_the_work_inside_the_environment(checkout):
    """A wrapper in between would die alone and leave a training behind that nobody can stop."""
    make_environment(checkout, "echo $$")
    process = subprocess.Popen(
        [BASE_PYTHON, "-S", "manage.py", "check"], cwd=checkout, stdout=subprocess.PIPE, text=True
    )
    output, _ = process.communicate(timeout=60)
    assert int(output) == process.pid


def test_an_old_python_is_refused_by_name(monkeypatch, capsys):
    monkeypatch.setattr(bootstrap.sys, "version_info", (3, 10, 1))
    assert bootstrap.run(["quickstart"]) == 1
    assert "needs Python 3.11 to 3.13" in capsys.readouterr().err


@pytest.mark.process
def test_a_failing_install_is_one_message_and_leaves_no_stamp(checkout, monkeypatch, capsys):
    monkeypatch.setattr(bootstrap, "ROOT", checkout)
    (checkout / "requirements-rl.txt").write_text("no-such-package-of-ratchet==99\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert bootstrap._install(Path(sys.prefix), ("requirements-rl.txt",), ask=False) == 1
    assert "could not be installed" in capsys.readouterr().err


def test_the_stamp_makes_a_second_install_immediate(checkout, monkeypatch, tmp_path):
    monkeypatch.setattr(bootstrap, "ROOT", checkout)
    installs: list[object] = []
    monkeypatch.setattr(bootstrap, "_pip_install", lambda *arguments: installs.append(arguments) or 0)
    environment = tmp_path / "environment"
    environment.mkdir()
    for _ in range(2):
        assert bootstrap._install(environment, ("requirements-rl.txt",), ask=False) == 0
    assert len(installs) == 1
    (checkout / "requirements.txt").write_text("django==0\n")
    bootstrap._install(environment, ("requirements-rl.txt",), ask=False)
    assert len(installs) == 2


def test_what_is_installed_with_more_is_not_installed_again(checkout, monkeypatch, tmp_path):
    monkeypatch.setattr(bootstrap, "ROOT", checkout)
    monkeypatch.setattr(bootstrap, "_pip_install", lambda *arguments: 0)
    assert bootstrap._install(tmp_path, bootstrap.REQUIREMENTS["test"], ask=False) == 0
    monkeypatch.setattr(bootstrap, "_pip_install", lambda *arguments: 1)
    assert bootstrap._install(tmp_path, bootstrap.REQUIREMENTS["quickstart"], ask=False) == 0
    assert bootstrap._install(tmp_path / "other", bootstrap.REQUIREMENTS["quickstart"], ask=False) == 1


def test_the_first_settings_are_written_once_and_for_their_owner_only(checkout, monkeypatch):
    monkeypatch.setattr(bootstrap, "ROOT", checkout)
    monkeypatch.delenv("SECRET_KEY")
    bootstrap._write_environment()
    first = (checkout / ".env").read_text()
    bootstrap._write_environment()
    assert (checkout / ".env").read_text() == first
    assert (checkout / ".env").stat().st_mode & 0o777 == 0o600
    assert "SECRET_KEY=" in first


def test_no_settings_are_written_where_the_environment_has_them(checkout, monkeypatch):
    monkeypatch.setattr(bootstrap, "ROOT", checkout)
    monkeypatch.setenv("SECRET_KEY", "from the environment")
    bootstrap._write_environment()
    assert not (checkout / ".env").exists()
