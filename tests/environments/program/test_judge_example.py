"""The page's judge, asked as a check."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rl.environments.program.contract import ChatReply, ChatRequest
from rl.environments.program.door import Door
from tests.environments.program.agents import ONCE, play, program, task

pytestmark = pytest.mark.process


JUDGE = Path(__file__).resolve().parents[3] / "docs/examples/judge_answer.py"


@pytest.mark.parametrize(("reply", "reward"), [("7", 0.7), ("Seven, I would say.", None)])
def test_a_judge_on_a_server_gives_the_score(monkeypatch: pytest.MonkeyPatch, reply: str, reward: float | None):
    asked: list[ChatRequest] = []

    def judge(key: str, request: ChatRequest) -> ChatReply:
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
