"""Thumbs that are given in Open WebUI are here with the next round, once."""

import asyncio
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from django.conf import settings
from django.test import Client

from rl import tasks
from rl.from_systems.sources import fetching, openwebui
from rl.from_systems.sources.registered import FeedbackSource
from rl.models import Feedback, Trace
from tests.from_systems.sources.open_webui import OpenWebUI, thumb
from tests.web.api.conftest import key_for

pytestmark = [pytest.mark.django_db, pytest.mark.process]


def error_of(source: FeedbackSource) -> str:
    assert fetching.fetch(source).stored == 0
    return fetching.progress_of(source).error


@pytest.mark.database
def test_a_thumb_is_here_with_the_next_round_and_stored_once(source: FeedbackSource, double: OpenWebUI):
    double.give(thumb(1), thumb(2, rating=-1, at=60))
    assert [tasks.fetch_sources(), tasks.fetch_sources()] == [{"chat": 2}, {"chat": 0}]
    assert double.fetched == [1, 2]
    assert list(Feedback.objects.order_by("rated_at").values_list("value", "rater")) == [
        (1, "openwebui:u1"),
        (0, "openwebui:u1"),
    ]
    assert {(trace.agent.name, trace.source) for trace in Trace.objects.all()} == {("support-chat", openwebui.FORMAT)}
    double.give(thumb(3, at=1030))
    double.now += 60
    assert (tasks.fetch_sources(), double.fetched) == ({"chat": 1}, [3])


def test_a_thumb_that_is_changed_counts_as_it_is_now(source: FeedbackSource, double: OpenWebUI):
    double.give(thumb(1))
    fetching.fetch(source)
    double.give(thumb(1, rating=-1, at=1010))
    fetching.fetch(source)
    assert Feedback.objects.get(is_current=True).value == 0


def test_a_thumb_within_the_second_of_the_last_round_is_not_missed(source: FeedbackSource, double: OpenWebUI):
    double.give(thumb(2, at=1000))
    fetching.fetch(source)
    double.give(thumb(1, at=1000), thumb(3, at=999))
    assert (fetching.fetch(source).stored, fetching.fetch(source).stored) == (2, 0)


def test_what_is_too_much_for_one_round_comes_with_the_next(source: FeedbackSource, double: OpenWebUI, monkeypatch):
    monkeypatch.setattr(fetching, "AT_ONCE", 2)
    double.give(*(thumb(number) for number in range(1, 6)))
    assert fetching.fetch(source, seconds=0).error.endswith("its answer took too long")
    monkeypatch.setattr(
        "rl.from_systems.sources.asking.SourceClient._read", lambda self, response, most: response.read()
    )
    numbers = [fetching.fetch(source, seconds=0).stored for _ in range(6)]
    assert (numbers, double.fetched) == ([1, 1, 1, 1, 1, 0], [1, 2, 3, 4, 5])


def test_a_round_that_breaks_off_keeps_what_it_stored(source: FeedbackSource, double: OpenWebUI, monkeypatch):
    monkeypatch.setattr(fetching, "AT_ONCE", 1)
    double.give(thumb(1), thumb(2, at=1))
    whole = double.answer

    def break_off(path: str, key: str) -> tuple[int, bytes]:
        return (503, b"") if path.endswith("0002") else whole(path, key)

    monkeypatch.setattr(double, "answer", break_off)
    assert "answered 503" in fetching.fetch(source).error
    monkeypatch.setattr(double, "answer", whole)
    double.asked.clear()
    assert (fetching.fetch(source).stored, double.fetched) == (1, [2])


def test_what_cannot_be_read_is_counted_and_holds_nothing_up(source: FeedbackSource, double: OpenWebUI):
    double.give(thumb(1, type="other"), thumb(2, snapshot={}), thumb(3))
    progress = fetching.fetch(source)
    assert (progress.stored, progress.refused, progress.error) == (1, 2, "")
    assert progress.reason


def test_what_was_deleted_meanwhile_or_is_too_large_is_passed_over(
    source: FeedbackSource, double: OpenWebUI, monkeypatch
):
    double.give(thumb(1), thumb(2), thumb(3))
    whole = double.answer
    monkeypatch.setattr(openwebui, "MOST_BYTES", 100_000)

    def answer(path: str, key: str) -> tuple[int, bytes]:
        special = {"0001": (404, b""), "0002": (200, b" " * 200_000)}
        return special.get(path[-4:]) or whole(path, key)

    monkeypatch.setattr(double, "answer", answer)
    progress = fetching.fetch(source)
    assert (progress.stored, progress.refused, "100000 bytes" in progress.reason) == (1, 1, True)


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "OPEN_WEBUI_KEY is not known"), (403, "administrator"), (404, "is this Open WebUI"), (302, "answered 302")],
)
def test_what_is_wrong_is_said_with_what_to_do(source: FeedbackSource, double: OpenWebUI, status: int, words: str):
    double.status = status
    assert words in error_of(source)


@pytest.mark.parametrize(
    "instead",
    [b"<html>", b"{}", b"[1]", b'[{"id": 1, "updated_at": 1}]', b'[{"id": "../x", "updated_at": 1}]', b"[" * 9999],
)
def test_an_answer_that_is_none_of_open_webui_is_refused(source: FeedbackSource, double: OpenWebUI, instead: bytes):
    double.instead = instead
    assert "cannot be asked" in error_of(source)


def test_more_bytes_than_are_read_are_refused(source: FeedbackSource, double: OpenWebUI, monkeypatch):
    monkeypatch.setattr(openwebui, "MOST_BYTES_OF_IDS", 10)
    double.give(thumb(1))
    assert "more than 10 bytes" in error_of(source)


def test_a_source_that_fails_says_so_once_and_recovers(source: FeedbackSource, double: OpenWebUI, caplog):
    double.give(thumb(1))
    double.status = 503
    assert [error_of(source), error_of(source)] == [fetching.progress_of(source).error] * 2
    assert len([record for record in caplog.records if "answered 503" in record.message]) == 1
    double.status = 200
    assert fetching.fetch(source).stored == 1
    assert fetching.progress_of(source).error == ""


def test_a_missing_key_is_named(source: FeedbackSource, monkeypatch):
    monkeypatch.delenv("OPEN_WEBUI_KEY")
    assert "OPEN_WEBUI_KEY" in error_of(source)


def test_a_lost_marker_stores_nothing_twice(source: FeedbackSource, double: OpenWebUI, data_dir: Path):
    double.give(thumb(1))
    fetching.fetch(source)
    (data_dir / "sources/chat.json").unlink()
    assert (fetching.fetch(source).stored, double.fetched) == (0, [1, 1])
    (data_dir / "sources/chat.json").write_text("{")
    with pytest.raises(Exception, match="delete it"):
        fetching.fetch(source)


# --- sent at once ------------------------------------------------------------------------------------------------------


def send(key: str, rows: object) -> tuple[int, dict[str, object]]:
    client = Client(headers={"authorization": f"Bearer {key}"})
    answer = client.post("/api/openwebui/feedback/", json.dumps(rows), content_type="application/json")
    return answer.status_code, answer.json()


def test_a_row_that_is_sent_at_once_is_the_same_as_a_fetched_one(source: FeedbackSource, double: OpenWebUI, agent):
    status, document = send(key_for(agent), thumb(1))
    assert (status, document["imported"]) == (200, 1)
    double.give(thumb(1))
    assert fetching.fetch(source).stored == 0
    assert Feedback.objects.count() == Trace.objects.filter(feedback__isnull=False).count() == 1


def test_a_row_that_says_nothing_is_refused_with_the_reason(agent):
    status, document = send(key_for(agent), [thumb(1, snapshot={})])
    assert (status, document["imported"], len(document["refused"])) == (200, 0, 1)


def test_the_key_says_whose_answers_these_are(secret_key: str):
    status, document = send(secret_key, thumb(1))
    assert (status, "--agent" in document["detail"]) == (400, True)


@pytest.mark.parametrize("rows", [[1], "x", [{}] * 101])
def test_other_bodies_are_refused(agent, rows: object):
    assert send(key_for(agent), rows)[0] == 400


# --- what the real one answers -----------------------------------------------------------------------------------------


def test_the_answers_of_open_webui_itself_are_read(source: FeedbackSource, double: OpenWebUI):
    """Recorded from 0.12.4: a chat, a thumb down, then its reason."""
    recorded = json.loads(Path(__file__).with_name("openwebui-0.12.4.json").read_text())
    double.give(recorded["row"])
    assert {*recorded["ids"][0]} == {"id", "user_id", "created_at", "updated_at"}
    progress = fetching.fetch(source)
    assert (progress.stored, progress.refused, progress.error) == (1, 0, "")
    rating = Feedback.objects.get()
    assert (rating.value, rating.scale, rating.tags) == (
        pytest.approx(1 / 9),
        "score",
        ["parcel", "accurate_information"],
    )
    assert (rating.notes, rating.trace.response, len(rating.trace.prompt)) == ("Nice.", "It arrives tomorrow.", 2)


def test_the_function_for_open_webui_sends_a_row_that_is_taken(agent, monkeypatch):
    """The function itself, with what it finds in Open WebUI: https://docs.openwebui.com/features/plugin/functions/"""
    recorded = json.loads(Path(__file__).with_name("openwebui-0.12.4.json").read_text())["row"]
    module = the_function(monkeypatch, recorded)
    sent: list[dict[str, object]] = []
    monkeypatch.setattr(module.Event, "send", lambda self, row: sent.append(row))
    function = module.Event()
    for name in ("feedback.created", "feedback.deleted", "chat.created"):
        asyncio.run(function.event({"event": name, "subject": {"type": "feedback", "id": recorded["id"]}}))
    assert sent == [recorded]
    assert send(key_for(agent), sent[0])[1]["imported"] == 1


def the_function(monkeypatch, row: dict[str, object]) -> ModuleType:
    class Feedbacks:
        @staticmethod
        async def get_feedback_by_id(number: str) -> SimpleNamespace | None:
            return SimpleNamespace(type=row["type"], model_dump=lambda: row) if number == row["id"] else None

    found = ModuleType("open_webui.models.feedbacks")
    found.Feedbacks = Feedbacks
    for name in ("open_webui", "open_webui.models"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, found.__name__, found)
    path = Path(settings.BASE_DIR) / "docs/examples/openwebui_function.py"
    spec = importlib.util.spec_from_file_location("openwebui_function", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
