"""Graders that ask a model, over HTTP."""

import pytest

from rl.evaluation.judges import asking
from tests.evaluation.judges.conftest import server  # noqa: F401  a fixture
from tests.evaluation.judges.judging_server import JudgingServer, write_judges
from tests.from_systems.openai_tuning.graders.graders import grade, label_model, multi, raised, score_model

pytestmark = pytest.mark.process


@pytest.fixture
def judge(server: JudgingServer, settings, tmp_path) -> JudgingServer:  # noqa: F811
    settings.JUDGES_FILE = write_judges(tmp_path / "judges.yaml", careful={"url": server.url, "model": "qwen"})
    return server


@pytest.mark.parametrize(
    ("reply", "reward"),
    [
        ('{"result": 0.75}', 0.75),
        ('Polite.\n```json\n{"steps": [], "result": "0.5"}\n```', 0.5),
        ('<think>{"result": 1}</think>{"result": 0}', 0.0),
        (" 1.0 ", 1.0),
    ],
)
def test_a_score_is_read_from_the_reply(judge: JudgingServer, reply: str, reward: float):
    judge.reply = reply
    response = grade(score_model(sampling_params={"max_completions_tokens": 9, "temperature": 1}), "Bern")
    assert (response["reward"], raised(response)) == (reward, {})
    assert response["metadata"]["token_usage"] == 45
    assert response["metadata"]["sampled_model_name"] == "careful"
    assert response["model_grader_token_usage_per_model"] == {"careful": {"prompt_tokens": 40, "total_tokens": 45}}
    ((body, _),) = judge.requests
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert "from 0 to 1" in body["messages"][0]["content"]
    assert body["messages"][1]["content"] == "How good is Bern?"
    assert {name: body[name] for name in ("model", "max_tokens", "temperature")} == {
        "model": "qwen",
        "max_tokens": 9,
        "temperature": 1,
    }


@pytest.mark.parametrize("reply", ["very good", '{"result": 7}', '{"result": "nan"}', '{"score": 1}'])
def test_a_reply_without_a_score_within_the_range_is_flagged(judge: JudgingServer, reply: str):
    judge.reply = reply
    response = grade(score_model(), "Bern")
    assert (response["reward"], raised(response)) == (0.0, {"model_grader_parse_error": True})


@pytest.mark.parametrize(
    ("reply", "reward", "flags"),
    [
        ('{"result": "kind"}', 1.0, {}),
        ("rude", 0.0, {}),
        ('{"result": "neither"}', 0.0, {"model_grader_parse_error": True}),
    ],
)
def test_a_label_that_passes_is_worth_1(judge: JudgingServer, reply: str, reward: float, flags: dict[str, bool]):
    judge.reply = reply
    response = grade(label_model(), "Bern")
    assert (response["reward"], raised(response)) == (reward, flags)
    ((body, _),) = judge.requests
    assert [message["role"] for message in body["messages"]] == ["system"]
    assert body["messages"][0]["content"].endswith('where LABEL is one of these: ["kind", "rude"].')


def test_a_model_that_refuses_and_a_server_that_fails_are_flagged(judge: JudgingServer, monkeypatch):
    judge.refusal, judge.reply = "I may not.", "no"
    assert raised(grade(score_model(), "Bern")) == {"model_grader_refusal_error": True}
    monkeypatch.setattr(asking, "DELAYS", ())
    judge.failures = [500]
    flags = raised(grade(score_model(), "Bern"))
    assert flags["model_grader_server_error"] is True
    assert "HTTP 500" in flags["model_grader_server_error_details"]


def test_tokens_of_several_graders_are_counted_by_model(judge: JudgingServer):
    judge.reply = '{"result": 1}'
    response = grade(multi("(a + b) / 2", a=score_model(), b=score_model(range=[1, 5])), "Bern")
    assert (response["reward"], response["metadata"]["token_usage"]) == (1.0, 90)
    assert response["model_grader_token_usage_per_model"] == {"careful": {"prompt_tokens": 80, "total_tokens": 90}}
