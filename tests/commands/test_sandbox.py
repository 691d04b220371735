import json

import pytest
from django.core.management import CommandError, call_command

from rl.management.commands import sandbox as command
from rl.sandbox.attacks import ATTACKS, Attack
from rl.sandbox.backends import available
from tests.missing import missing

pytestmark = pytest.mark.process


FEW = tuple(attack for attack in ATTACKS if attack.name in ("read_settings", "tcp_loopback", "environment"))
BROKEN = Attack("broken", "nothing", "won('everything')")


@pytest.fixture(autouse=True)
def _bubblewrap():
    if available()["bubblewrap"]:
        missing("bubblewrap", "bubblewrap")


@pytest.fixture
def few(monkeypatch):
    """The list is long; its tests have tried all of it."""

    def only(*attacks: Attack) -> None:
        monkeypatch.setattr(command, "try_all", lambda backend: real(backend, attacks))

    real = command.try_all
    return only


def run(capsys, *arguments: object) -> str:
    call_command("sandbox", *map(str, arguments))
    return capsys.readouterr().out


def test_check_prints_a_table_of_all_that_was_tried(capsys, few):
    few(*FEW)
    printed = run(capsys, "check", "--backend", "bubblewrap")
    for attack in FEW:
        assert attack.name in printed
    assert "3 of 3 attacks held, with bubblewrap." in printed


def test_check_tries_every_backend_and_prints_json(capsys, few):
    few(*FEW)
    document = json.loads(run(capsys, "check", "--json"))
    usable = [name for name, complaint in document["backends"].items() if not complaint]
    assert document["lost"] == 0
    assert [(each["attack"], each["backend"], each["held"]) for each in document["attacks"]] == [
        (attack.name, name, True) for name in usable for attack in FEW
    ]


def test_an_attack_that_was_won_fails_the_check_and_says_what_was_seen(capsys, few):
    few(BROKEN)
    with pytest.raises(CommandError, match="1 attacks were won: do not run untrusted code") as refused:
        call_command("sandbox", "check", "--backend", "bubblewrap")
    assert refused.value.returncode == 1
    printed = capsys.readouterr().out
    assert "LOST" in printed
    assert "WON everything" in printed


def test_check_says_what_to_do_where_nothing_works(monkeypatch):
    monkeypatch.setattr(command.sandbox, "available", lambda: {"bubblewrap": "install bubblewrap"})
    with pytest.raises(CommandError, match="bubblewrap cannot be used here: install bubblewrap") as refused:
        call_command("sandbox", "check")
    assert refused.value.returncode == 1


def test_run_prints_what_the_program_prints_and_ends_as_it_does(capsys, tmp_path):
    (tmp_path / "program.py").write_text("import sys\nprint(sys.stdin.read())\nprint('why', file=sys.stderr)\nexit(3)")
    (tmp_path / "input").write_text("given")
    with pytest.raises(SystemExit) as ended:
        call_command("sandbox", "run", str(tmp_path / "program.py"), "--stdin", str(tmp_path / "input"))
    captured = capsys.readouterr()
    assert (ended.value.code, captured.out) == (3, "given\n")
    assert "why" in captured.err


def test_run_prints_json(capsys, tmp_path):
    (tmp_path / "program").write_text("kill -KILL $$")
    result = json.loads(run(capsys, "run", tmp_path / "program", "--language", "shell", "--json"))
    assert (result["exit"], result["stdout"], result["timed_out"]) == (-9, "", False)


def test_the_name_of_a_shell_program_says_what_it_is(capsys, tmp_path):
    (tmp_path / "program.sh").write_text("echo $((6 * 7))")
    assert run(capsys, "run", tmp_path / "program.sh") == "42\n"


def test_run_refuses_files_that_are_no_text(tmp_path):
    (tmp_path / "program").write_bytes(b"\xff")
    for name, says in (("program", "is not UTF-8 text"), ("nothing", "No such file")):
        with pytest.raises(CommandError, match=says) as refused:
            call_command("sandbox", "run", str(tmp_path / name))
        assert refused.value.returncode == 2
