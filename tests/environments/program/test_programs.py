"""Programs that are started for their tasks, ask a model, and end in every way there is."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from rl.base.errors import Interrupted, UsageError
from rl.environments.program.door import Door
from rl.environments.program.environment import ProgramEnv
from rl.environments.program.openai_chat import CallRefused, ChatReply, ProgramRequest
from rl.environments.program.programs import Programs
from tests.environments.program.agents import ASK, ONCE, echo, play, program, task

pytestmark = pytest.mark.process


ROOT = Path(__file__).resolve().parents[3]


def only(environment: ProgramEnv, *tasks: dict[str, Any]) -> Any:
    [end], _ = play(environment, tasks or [task()])
    return end


def test_each_task_has_a_process_of_its_own_and_its_exit_code_is_the_reward():
    code = ONCE + "\nsys.exit(task['task_id'] == 't1')"
    ends, _ = play(program(code, failure_penalty=-0.5), [task(0), task(1), task(2)])
    assert [(end.reward, end.success) for end in ends] == [(1.0, True), (-0.5, False), (1.0, True)]
    assert [end.info["output"] for end in ends] == [f"What is {number}?\n" for number in range(3)]
    assert ends[1].info["failed"] == ends[1].reason == "the command ended with exit code 1"
    assert ends[1].info["crashed"] is False, "so the program says that it failed"


def test_what_several_ask_at_the_same_time_is_answered_together():
    _, batches = play(program(ONCE), [task(number) for number in range(4)])
    assert batches == [[0, 1, 2, 3]]


def test_no_more_programs_run_at_once_than_there_may():
    _, batches = play(program(ONCE), [task(number) for number in range(3)], at_once=1)
    assert batches == [[0], [1], [2]]


def test_it_works_in_an_empty_folder_of_its_own_that_is_gone_afterwards():
    end = only(program(ONCE + "\nopen('note', 'w').close(); print(os.getcwd(), os.listdir())"))
    folder, listed = end.info["output"].splitlines()[1].split(" ", 1)
    assert listed == "['note']"
    assert not Path(folder).exists()


def test_its_environment_has_what_the_operator_gives_and_no_secret_of_ours(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET_KEY", "ours")
    monkeypatch.setenv("SEARCH_TOKEN", "sesame")
    code = "print(sorted(os.environ), os.environ['SEARCH_TOKEN'], os.environ['LLM'])"
    end = only(program(ONCE + "\n" + code, env={"LLM": "{base_url}"}, env_from=["SEARCH_TOKEN"]))
    names, secret, address = end.info["output"].splitlines()[1].rsplit(" ", 2)
    assert "OPENAI_API_KEY" in names
    assert "SECRET_KEY" not in names
    assert "DATABASE_URL" not in names
    assert secret == "***", "what is stored of an episode holds no secret"
    assert address.startswith("http://127.0.0.1:")
    assert address.endswith("/v1")


def test_a_variable_that_is_not_set_is_told_before_anything_runs():
    with pytest.raises(UsageError, match="env_from: the environment variable NOWHERE_TOKEN is not set"):
        only(program(ONCE, env_from=["NOWHERE_TOKEN"]))


def test_fields_of_the_task_are_arguments():
    environment = ProgramEnv(
        command=[sys.executable, "-c", ASK + ONCE + "\nprint(sys.argv[1:])", "{prompt}", "n={more}"]
    )
    end = only(environment, task(7, more={"a": 1}))
    assert end.info["output"].splitlines()[1] == str(["What is 7?", 'n={"a": 1}'])
    with pytest.raises(UsageError, match="the task t7 has no field 'more', which 'n={more}' names"):
        only(environment, task(7))


def test_a_command_that_cannot_be_started_ends_the_training_in_one_sentence():
    with pytest.raises(UsageError, match="the command 'no-such-program' cannot be started: No such file or directory"):
        only(ProgramEnv(command=["no-such-program"]))


def test_a_crash_is_told_with_the_last_lines_that_it_wrote():
    end = only(program(ONCE + "\nraise LookupError('no shelf 7')", reward="answer"), task(answer="x"))
    assert end.reward == 0.0
    assert end.info["crashed"] is True
    assert end.reason.startswith("the command ended with exit code 1; its last words: ")
    assert end.reason.endswith("LookupError: no shelf 7")


def test_a_program_that_never_asks_says_nothing_about_the_model():
    end = only(program("print('hello')"))
    assert (end.reward, end.reason) == (None, "the command ended, and never asked the model at OPENAI_BASE_URL")
    end = only(program("import no_such_module"))
    assert end.reward is None
    assert "ModuleNotFoundError: No module named 'no_such_module', and never asked the model" in end.reason


def test_a_program_that_never_ends_is_killed_with_all_that_it_started():
    code = (
        ONCE
        + """
import subprocess, time
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
time.sleep(600)
"""
    )
    end = only(program(code, time_limit=1.5, timeout_penalty=-1.0))
    assert (end.reward, end.info["timed_out"]) == (-1.0, True)
    assert end.reason == "the command did not end within 1.5 seconds"
    child = int(end.info["output"].splitlines()[1])
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_the_time_in_which_it_waits_for_the_model_is_not_its_own():
    def slowly(request: ProgramRequest) -> ChatReply:
        time.sleep(1.5)
        return echo(request)

    [end], _ = play(program(ONCE, time_limit=1.4), [task()], slowly)
    assert end.success
    assert end.info["seconds_of_program"] < 1.4


def test_more_answers_than_there_may_be_end_an_episode():
    end = only(program("while True: ask([user('again')])", max_turns=3))
    assert end.reason == "the command did not end within 3 answers (max_turns)"
    assert end.info["turn"] == 3


def test_an_answer_is_compared_with_the_tasks():
    ends, _ = play(program(ONCE, reward="answer"), [task(5, answer="is 5"), task(6, answer="is 5")])
    assert [(end.reward, end.success) for end in ends] == [(1.0, True), (0.0, False)]
    with pytest.raises(UsageError, match="the task t7 has no answer"):
        only(program(ONCE, reward="answer"), task(7))


CHECK = [sys.executable, "-c"]


def test_a_check_sees_the_answer_and_the_folder_and_its_exit_code_counts():
    check = """
import json, os, sys
print(json.load(sys.stdin)["answer"], os.listdir(), sys.argv[1], file=sys.stderr)
sys.exit(3)
"""
    code = ONCE + "\nopen('made', 'w').close()"
    end = only(program(code, reward="check", check=[*CHECK, check, "{answer}"]))
    assert end.reward == 0.0
    assert end.reason == "the check ended with exit code 3; its last words: What is 0? ['made'] What is 0?"
    assert only(program(ONCE, reward="check", check=["true"])).success
    slow = program(ONCE, reward="check", check=["sleep", "60"], check_time_limit=0.3)
    assert only(slow).reason == "the check took longer than 0.3 seconds"


def test_a_check_may_give_a_score():
    environment = program(ONCE, reward="score", check=["echo", "0.75"], failure_penalty=-1.0, solved_at=0.8)
    end = only(environment)
    assert (end.reward, end.success, end.reason) == (0.5, False, "the check gave 0.75")
    broken = only(program(ONCE, reward="score", check=["echo", "seven"]))
    assert (broken.reward, broken.success) == (None, False)
    assert "the check gave no number from 0 to 1, but 'seven', and exit code 0" in broken.reason


def test_a_reward_of_the_engine_may_judge():
    answer = ChatReply('```json\n{"a": 1}\n```')
    [end], _ = play(program(ONCE, reward="syntax_validation"), [task()], lambda request: answer)
    assert (end.reward, end.success) == (1.0, True)
    assert end.reason.startswith("syntax_validation: ")


def test_a_stranger_is_refused(monkeypatch: pytest.MonkeyPatch):
    code = (
        ONCE
        + """
os.environ["OPENAI_BASE_URL"] = os.environ["OPENAI_BASE_URL"].replace(os.environ["OPENAI_API_KEY"], "guess")
print(json.dumps(ask([user("?")])))
"""
    )
    refusal = json.loads(only(program(code)).info["output"].splitlines()[1])
    assert refusal["error"]["code"] == "invalid_api_key"


def test_a_refusal_is_told_as_openai_tells_it():
    code = "answer = ask([user('?')]); print(answer['error']['code']); print(ask([user('!')])['message']['content'])"
    refuse = iter([CallRefused("it is too long", "context_length_exceeded")])
    [end], _ = play(program(code), [task()], lambda request: next(refuse, None) or echo(request))
    assert end.info["output"] == "context_length_exceeded\n!\n"


def test_who_leaves_a_round_early_leaves_no_program_behind():
    code = "print(os.getpid()); ask([user('?')]); import time; time.sleep(600)"
    with Programs(program(code), 0, lambda: None) as programs, programs.playing([task(0), task(1)]) as playing:
        assert len(playing.calls()) == 2


def test_who_is_interrupted_ends_all_programs_and_comes_to_the_end_of_the_round():
    def alive() -> None:
        raise Interrupted("stopped by a test")

    code = "print(os.getpid()); ask([user('?')]); import time; time.sleep(600)"
    with Programs(program(code), 1, alive) as programs, programs.playing([task(0), task(1)]) as playing:
        while calls := playing.calls():
            for call in calls:
                call.answer(echo(call.request))
        assert [end.reward for end in playing.ends()] == [None, None]


def test_programs_end_with_a_process_that_is_killed(tmp_path: Path):
    code = """
import sys
from tests.environments.program.agents import program, task
from rl.environments.program.programs import Programs
code = "open(sys.argv[1], 'w').write(str(os.getpid())); ask([user('?')])"
environment = program(code)
environment.command = (*environment.command, sys.argv[1])
with Programs(environment, 0, lambda: None) as programs, programs.playing([task()]) as playing:
    playing.calls()
    print("asked", flush=True)
    sys.stdin.read()
"""
    note = tmp_path / "pid"
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(note)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout
    assert child.stdout.readline() == "asked\n"
    agent = psutil.Process(int(note.read_text()))
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert psutil.wait_procs([agent], timeout=60)[1] == []


JUDGE = Path(__file__).resolve().parents[3] / "docs/examples/judge_answer.py"


@pytest.mark.parametrize(("reply", "reward"), [("7", 0.7), ("Seven, I would say.", None)])
def test_a_judge_on_a_server_gives_the_score(monkeypatch: pytest.MonkeyPatch, reply: str, reward: float | None):
    asked: list[ProgramRequest] = []

    def judge(key: str, request: ProgramRequest) -> ChatReply:
        asked.append(request)
        return ChatReply(reply)

    monkeypatch.setenv("JUDGE_KEY", "sesame")
    door = Door(judge)
    where = {"JUDGE_URL": door.address("judge"), "JUDGE_MODEL": "wise"}
    check = [sys.executable, str(JUDGE)]
    try:
        [end], _ = play(program(ONCE, reward="score", check=check, env=where, env_from=["JUDGE_KEY"]), [task()])
    finally:
        door.close()
    assert end.reward == reward
    assert asked[0].model == "wise"
    assert "--- answer\nWhat is 0?\n---" in asked[0].messages[0].content
    if reward is None:
        assert end.reason.endswith("ValueError: the judge replied 'Seven, I would say.'")
