"""What people say of answers in Langfuse is here with the next round, once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rl.from_systems.sources import fetching, langfuse
from rl.from_systems.sources.registered import FeedbackSource
from rl.models import Feedback, Trace
from tests.conftest import make_trace
from tests.from_systems.sources.langfuse_double import KEY, LangfuseDouble, generation, score
from tests.from_systems.sources.open_webui import serving

pytestmark = [pytest.mark.django_db, pytest.mark.process]


@pytest.fixture
def there() -> Iterator[LangfuseDouble]:
    double = LangfuseDouble()
    with serving(double):
        yield double


@pytest.fixture
def source(there: LangfuseDouble, data_dir: Path, monkeypatch) -> FeedbackSource:
    monkeypatch.setenv("LANGFUSE_KEYS", KEY)
    return FeedbackSource("prod", "langfuse", there.url, "LANGFUSE_KEYS", "support-chat")


def fetch(source: FeedbackSource, there: LangfuseDouble, *scores: dict[str, Any]) -> fetching.SourceProgress:
    there.scores += scores
    return fetching.fetch(source)


@pytest.mark.database
def test_scores_come_with_the_generations_that_they_are_about(source: FeedbackSource, there: LangfuseDouble):
    there.generations += [generation(1), generation(1, 2, "Last.", minute=1), generation(2), generation(3)]
    on_first = score(3, False, minute=2, subject={"kind": "observation", "id": "g1-1", "traceId": "t1"})
    assert fetch(source, there, score(1), score(2, minute=1), on_first).stored == 3
    rated = {event.trace.external_id: (event.value, event.rater) for event in Feedback.objects.all()}
    assert rated == {
        f"g{name}": (value, "langfuse:ann:userfeedback") for name, value in [("1-2", 1), ("2-1", 1), ("1-1", 0)]
    }
    trace = Trace.objects.get(external_id="g1-2")
    assert (trace.response, trace.session_id, trace.tokens_in, trace.agent.name) == (
        "Last.",
        "talk-9",
        12,
        "support-chat",
    )


def test_what_is_known_is_not_asked_for_again(source: FeedbackSource, there: LangfuseDouble):
    there.generations += [generation(number) for number in range(1, 5)]
    assert fetch(source, there, score(1), score(2), score(3)).stored == 3
    there.asked.clear()
    assert fetch(source, there, score(4, minute=59)).stored == 1
    (path, asked), *others = there.asked
    assert (path, asked["fromTimestamp"]) == ("/api/public/v3/scores", ["2026-02-01T12:58:00Z"])
    assert [asked["traceId"] for _, asked in others] == [["t4"]]


def test_a_score_rates_an_answer_that_came_another_way(source: FeedbackSource, there: LangfuseDouble, agent):
    trace = make_trace(agent, external_id="g1-1", response="In other words.")
    there.generations.append(generation(1))
    fetch(source, there, score(1))
    assert (Feedback.objects.get().trace, Trace.objects.count()) == (trace, 1)


def test_a_bare_1_needs_a_scale(source: FeedbackSource, there: LangfuseDouble):
    there.generations.append(generation(1))
    progress = fetch(source, there, score(1, 1, dataType="NUMERIC"))
    assert (progress.stored, progress.refused, "scales:" in progress.reason) == (0, 1, True)
    (fetching.settings.DATA_DIR / "sources/prod.json").unlink()
    assert fetching.fetch(replace(source, scales=["user-feedback=1..5"])).stored == 1
    assert Feedback.objects.get().value == 0


@pytest.mark.parametrize(
    "subject",
    [
        None,
        {"kind": "session", "id": "x"},
        {"kind": "trace", "id": "t9"},
        {"kind": "trace", "id": "a b"},
        {"kind": "observation", "id": "g"},
    ],
)
def test_a_score_of_no_answer_is_counted(source: FeedbackSource, there: LangfuseDouble, subject: Any):
    progress = fetch(source, there, score(1, subject=subject))
    assert (progress.stored, progress.refused, progress.error) == (0, 1, "")
    assert "is about" in progress.reason


def test_wrong_keys_and_too_many_scores_are_told(source: FeedbackSource, there: LangfuseDouble, monkeypatch):
    monkeypatch.setattr(langfuse, "MOST_PAGES", 1)
    assert "import an export" in fetch(source, there, score(1), score(2), score(3)).error
    monkeypatch.setenv("LANGFUSE_KEYS", "pk:sk")
    assert "LANGFUSE_KEYS is not known" in fetching.fetch(source).error


@pytest.mark.parametrize("wrong", [{"timestamp": "soon"}, {"timestamp": None}, {"id": None, "timestamp": 1}])
def test_an_answer_that_is_none_of_langfuse_is_refused(
    source: FeedbackSource, there: LangfuseDouble, monkeypatch, wrong
):
    monkeypatch.setattr(there, "_page", lambda asked: {"data": [score(1, **wrong)], "meta": {}})
    assert "cannot be asked" in fetching.fetch(source).error
