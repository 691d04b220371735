from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rl.collect.otlp.attribution import Asker, asker_of, judged_by

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def asked(key: str, minute: int, *requested: tuple[str, str]) -> Asker[str]:
    wanted = tuple({"id": id, "name": name, "arguments": None} for id, name in requested)
    return Asker(key, key, NOON + timedelta(minutes=minute), wanted)


def call(minute: float, name: str = "track", call_id: str = "") -> dict[str, Any]:
    began = (NOON + timedelta(minutes=minute)).isoformat()
    return {"tool_name": name, "call_id": call_id, "timestamp": began, "span_id": "x"}


ANSWERS = [asked("first", 0, ("c1", "track")), asked("second", 2, ("c2", "pay")), asked("last", 4)]


@pytest.mark.parametrize(
    ("item", "key"),
    [
        (call(3, call_id="c1"), "first"),
        (call(-1, call_id="c2"), "second"),
        (call(3, call_id="nobody's"), None),
        (call(3, "track"), "first"),
        (call(3, "pay"), "second"),
        (call(3, "sing"), "second"),
        (call(9, "sing"), "last"),
        (call(-1, "track"), None),
        ({**call(0, "track"), "timestamp": ""}, "first"),
        ({**call(0, "sing"), "timestamp": "yesterday"}, "last"),
    ],
)
def test_the_answer_that_asked_for_a_call(item: dict[str, Any], key: str | None):
    for answers in (ANSWERS, ANSWERS[::-1]):
        found = asker_of(item, answers)
        assert (found.key if found else None) == key


def test_without_answers_nobody_asked():
    assert asker_of(call(1), []) is None
    assert judged_by("first", True, []) is None


def test_an_evaluation_judges_the_answer_of_its_span():
    assert judged_by("second", False, ANSWERS).key == "second"
    assert judged_by("elsewhere", False, ANSWERS) is None


def test_an_evaluation_of_an_agent_judges_its_last_answer():
    assert judged_by("elsewhere", True, ANSWERS[::-1]).key == "last"
    assert judged_by("first", True, ANSWERS).key == "first"
