"""What a model on a server is asked, over HTTP, and what its replies mean."""

from dataclasses import replace
from typing import Any

import pytest

from rl.base.errors import Interrupted, JudgeFailed
from rl.base.records import silent
from rl.evaluation.judges import Duel, asking
from rl.evaluation.judges.asking import compare, read_side
from rl.evaluation.judges.servers import JudgeServer
from tests.evaluation.judges.judging_server import JudgingServer

pytestmark = pytest.mark.process


SHORT, LONG = "In Orders.", "We are very sorry to hear that, and ask you to be patient."


@pytest.fixture
def judge(server: JudgingServer) -> JudgeServer:
    return JudgeServer("careful", server.url, "qwen", criteria="Short and to the point.")


def duel(number: int, first: str = SHORT, second: str = LONG) -> Duel:
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"Where is parcel {number}?"}]
    return Duel(prompt, f"q{number}", first, second)


def test_every_duel_is_asked_with_the_sides_swapped(server, judge):
    assert compare(judge, [duel(1), duel(2, LONG, SHORT)], silent) == [1.0, 0.0]
    bodies = [body for body, _ in server.requests]
    assert len(bodies) == 4
    (first,) = [body for body in bodies if f"parcel 1?\n</conversation>\n\n<answer_a>\n{SHORT}" in str_of(body)]
    assert "system: Be brief.\n\nuser: Where is parcel 1?" in str_of(first)
    assert first["messages"][0]["content"].endswith("What makes an answer good here: Short and to the point.")
    assert {name: first[name] for name in ("model", "temperature", "max_tokens", "stream")} == {
        "model": "qwen",
        "temperature": 0,
        "max_tokens": 512,
        "stream": False,
    }


def str_of(body: dict[str, Any]) -> str:
    return str(body["messages"][1]["content"])


def test_a_model_that_always_takes_the_same_side_says_nothing(server, judge):
    server.reply = "A"
    assert compare(judge, [duel(1), duel(2)], silent) == [0.5, 0.5]


def test_nobody_is_asked_about_equal_answers(server, judge):
    assert compare(judge, [duel(1, SHORT, SHORT)], silent) == [0.5]
    assert server.requests == []


@pytest.mark.parametrize(
    ("reply", "side"),
    [
        ("A", 1.0),
        (" **B**.", 0.0),
        ("Answer A", 1.0),
        ("TIE", 0.5),
        ("<think>A says more, B is short.</think>\nB", 0.0),
        ("Both are polite, but one is shorter.\n\nA", 1.0),
        ("B\n\nIt is shorter.", 0.0),
        ("A tie would be fair", None),
        ("<think>A, I think, because", None),
        ("Neither", None),
        ("", None),
    ],
)
def test_a_reply_names_a_side_or_none(reply, side):
    assert read_side(reply) == side


def test_a_server_that_is_busy_is_asked_again(server, judge, monkeypatch):
    monkeypatch.setattr(asking, "DELAYS", (0.01, 0.01))
    server.failures = [429, 503]
    assert compare(judge, [duel(1)], silent) == [1.0]
    assert len(server.requests) == 4


def test_one_that_refuses_is_not_and_the_reason_is_told(server, judge):
    server.failures = [401] * 9
    with pytest.raises(JudgeFailed, match=r"judge careful at http.*HTTP 401.*busy"):
        compare(judge, [duel(1)], silent)
    assert len(server.requests) <= 2  # the duel's two questions


def test_one_that_is_not_there_is_told_of_after_the_last_attempt(judge, monkeypatch):
    monkeypatch.setattr(asking, "DELAYS", (0.01, 0.01))
    with pytest.raises(JudgeFailed, match="cannot be asked"):
        compare(replace(judge, url="http://127.0.0.1:1/v1"), [duel(1)], silent)


def test_replies_that_name_no_side_are_no_judgement(server, judge):
    server.reply = "I cannot compare these."
    with pytest.raises(JudgeFailed, match="in 4 of 4 replies, such as 'I cannot compare these.'"):
        compare(judge, [duel(1), duel(2)], silent)


def test_the_key_is_sent_and_redirects_are_not_followed(server, judge, tmp_path):
    (tmp_path / "key").write_text("sk-judge")
    compare(replace(judge, key_file=str(tmp_path / "key")), [duel(1)], silent)
    assert server.requests[0][1]["authorization"] == "Bearer sk-judge"
    with pytest.raises(JudgeFailed, match="HTTP 307|HTTP 404"):
        compare(replace(judge, url=f"{server.url}/elsewhere"), [duel(1)], silent)


def test_it_tells_how_far_it_is_and_ends_when_it_is_stopped(server, judge):
    steps: list[int] = []

    def stop_at_two(event: str, values: dict[str, Any]) -> None:
        if event == "step":
            steps.append(values["step"])
            if len(steps) == 2:
                raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        compare(replace(judge, at_once=1), [duel(number) for number in range(60)], stop_at_two)
    assert steps == [1, 2]
    assert len(server.requests) < 20
