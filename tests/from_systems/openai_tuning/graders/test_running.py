import json
import re
from pathlib import Path

import pytest
from django.conf import settings
from openai.types.fine_tuning.alpha import GraderRunResponse

from rl.base.errors import SandboxUnavailable
from rl.from_systems.openai_tuning.graders import running
from tests.from_systems.openai_tuning.graders.graders import (
    Json,
    grade,
    multi,
    python,
    raised,
    similarity,
    string_check,
)


@pytest.mark.parametrize(
    ("operation", "sample", "reward"),
    [
        ("eq", "Bern", 1),
        ("eq", "bern", 0),
        ("ne", "Basel", 1),
        ("ne", "Bern", 0),
        ("like", "It is Bern.", 1),
        ("like", "It is BERN.", 0),
        ("ilike", "It is BERN.", 1),
        ("ilike", "It is Basel.", 0),
    ],
)
def test_a_string_is_checked(operation: str, sample: str, reward: float):
    assert grade(string_check(operation=operation), sample, answer="Bern")["reward"] == reward


def test_texts_are_compared():
    assert grade(similarity("rouge_l"), "the cat sat", answer="the cat stood")["reward"] == pytest.approx(2 / 3)


def test_the_answer_has_the_shape_that_the_client_reads():
    response = grade(multi("0.5 * a + b", a=string_check(), b=similarity("rouge_1")), "Bern", answer="Bern")
    read = GraderRunResponse.model_validate(response)
    assert (read.reward, read.sub_rewards) == (1.5, {"a": 1.0, "b": 1.0})
    assert (read.metadata.name, read.metadata.type) == ("all", "multi")
    assert read.metadata.token_usage is None
    assert read.metadata.execution_time >= 0
    assert read.api_model_grader_token_usage_per_model == {}
    assert read.metadata.errors.invalid_variable_error is False
    assert set(read.metadata.errors.to_dict(mode="json")) == set(response["metadata"]["errors"])


def test_a_grader_that_fails_is_flagged_and_counts_nothing_in_the_formula():
    json_city = string_check(input="{{ sample.output_json.city }}")
    response = grade(multi("a + b", a=json_city, b=string_check()), "Bern", answer="Bern")
    assert (response["reward"], response["sub_rewards"]) == (1.0, {"a": 0.0, "b": 1.0})
    assert raised(response) == {"sample_parse_error": True}
    response = grade(string_check(), "Bern")
    assert (response["reward"], raised(response)) == (0.0, {"invalid_variable_error": True})
    response = grade(multi("1 / a", a=string_check()), "Basel", answer="Bern")
    assert (response["reward"], raised(response)) == (0.0, {"formula_parse_error": True})


def test_a_machine_without_a_sandbox_runs_no_program(monkeypatch):
    def refuse(*given: object) -> None:
        raise SandboxUnavailable("install bubblewrap")

    monkeypatch.setattr(running, "call", refuse)
    response = grade(python("def grade(sample, item): return 1"), "Bern")
    expected = {"python_grader_server_error": True, "python_grader_server_error_type": "install bubblewrap"}
    assert (response["reward"], raised(response)) == (0.0, expected)


@pytest.mark.process
def test_a_program_grades_in_the_sandbox():
    program = "def grade(sample, item):\n    return (sample['output_json']['n'] + item['n']) / len(sample['choices'])"
    assert grade(python(program), '{"n": 0.25}', n=0.5)["reward"] == 0.75


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("def grade(sample, item):\n    return item['missing']", "KeyError: 'missing'"),
        ("def score(sample, item):\n    return 1", "has no attribute 'grade'"),
        ("def grade(sample, item):\n    return 'good'", "must return a finite number, not good"),
        ("def grade(sample, item):\n    return 10**400", "must return a finite number, not 1000"),
        ("def grade(sample, item):\n    print('x' * 9999)\n    return item['missing']", "KeyError: 'missing'"),
        ("def grade(sample, item):\n    return True", "must return a finite number, not True"),
        ("def grade(sample, item):\n    return float('nan')", "must return a finite number, not nan"),
        ("def grade(sample, item):\n    open('/etc/hostname').read()", "Error"),
        ("import socket\ndef grade(sample, item):\n    return socket.socket() and 1", "Error"),
    ],
)
def test_a_program_that_breaks_is_flagged_with_its_last_words(program: str, reason: str):
    response = grade(python(program), "Bern")
    flags = raised(response)
    assert response["reward"] == 0
    assert flags["python_grader_runtime_error"] is True
    assert reason in flags["python_grader_runtime_error_details"]


@pytest.mark.process
def test_a_program_has_its_time_and_no_more(monkeypatch):
    monkeypatch.setattr(running, "PYTHON_LIMITS", running.Limits.of_seconds(1))
    response: Json = grade(python("def grade(sample, item):\n    while True: pass"), "Bern")
    assert "limit" in raised(response)["python_grader_runtime_error_details"]


@pytest.mark.process
def test_the_example_of_the_page_is_a_grader():
    page = (Path(settings.BASE_DIR) / "docs/graders.md").read_text()
    (example,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert grade(json.loads(example), "It is BERN.", answer="Bern")["reward"] == 1
    assert grade(json.loads(example), "It is Basel.", answer="Bern")["reward"] == pytest.approx(0.2)
