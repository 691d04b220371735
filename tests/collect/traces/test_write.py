import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rl.base.records import Message, ReasoningStep, TaskEvent, ToolCall
from rl.collect.feedback import imported_feedback
from rl.collect.feedback.write import retract
from rl.collect.traces import write
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace, Rejected
from rl.collect.traces.write import MOST_NEW_AGENTS, NO_AGENT, OTHER_ANSWER, TOO_MANY_AGENTS, TraceStore
from rl.models import Agent, Feedback, ModelVersion, Trace

pytestmark = pytest.mark.database


TIME = datetime(2026, 2, 1, 12, 0, tzinfo=UTC)


def answer(external_id: str = "a1", question: str = "Where is it?", **fields: Any) -> ImportedTrace:
    values = {"where": f"line {external_id}", "response": "On its way.", **fields}
    return ImportedTrace(external_id=external_id, prompt=(Message(role="user", content=question),), **values)


def thumb(value: float = 1, **fields: Any) -> ImportedFeedback:
    return ImportedFeedback(kind="rating", rater="user:anna", scale="thumb", value=value, **fields)


def stored(agent: Agent, *records: ImportedTrace | Rejected, **options: Any) -> TraceStore:
    store = TraceStore("test", agent=agent, **options)
    store.take(records)
    return store


def figures(count: Any) -> tuple[int, int, int, int, dict[str, int]]:
    return count.read, count.imported, count.updated, count.unchanged, dict(count.skipped)


def test_an_answer_is_stored_with_all_that_is_known_about_it(agent):
    record = answer(
        session_id="s1",
        tool_calls=(ToolCall("find", {"id": 1}, "found"),),
        tokens_in=3,
        tokens_out=4,
        llm_calls=2,
        reasoning_steps=(ReasoningStep("Look it up.", insights=("parcel",)),),
        tasks=(TaskEvent("t1", "completed"),),
        state={"open": 2},
        action=0,
        cost=0.25,
        duration_ms=1200,
        details={"lang": "en"},
        occurred_at=TIME,
    )
    stored(agent, record)
    trace = Trace.objects.get()
    assert (trace.agent, trace.external_id, trace.source, trace.session_id) == (agent, "a1", "test", "s1")
    assert trace.prompt == [{"role": "user", "content": "Where is it?"}]
    assert trace.tool_calls[0]["tool_name"] == "find"
    assert trace.reasoning_steps[0]["insights"] == ["parcel"]
    assert trace.tasks[0]["status"] == "completed"
    assert (trace.state, trace.action, trace.details) == ({"open": 2}, 0, {"lang": "en"})
    assert (trace.tokens_in, trace.tokens_out, trace.llm_calls) == (3, 4, 2)
    assert (trace.cost, trace.duration_ms, trace.occurred_at) == (0.25, 1200, TIME)
    assert trace.reward_pending


def test_it_gives_back_the_trace_of_each_record(agent):
    store = TraceStore("test", agent=agent)
    first, refused, last = store.take([answer("a1"), Rejected("line 2", "is not JSON"), answer("a3")])
    assert (first.external_id, refused, last.external_id) == ("a1", None, "a3")
    assert store.report.traces.examples == {"is not JSON": ["line 2"]}


def test_the_same_again_changes_nothing(agent):
    records = [
        answer("a1", feedback=(thumb(),), cost=1e23),
        answer("a2", details={"n": 1e23}, tool_calls=(ToolCall("x"),)),
    ]
    stored(agent, *records)
    before = list(Trace.objects.order_by("pk").values())
    again = stored(agent, *records).report
    assert figures(again.traces) == (2, 0, 0, 2, {})
    assert figures(again.feedback) == (1, 0, 0, 1, {})
    assert list(Trace.objects.order_by("pk").values()) == before


def test_new_facts_are_added_and_what_is_not_mentioned_stays(agent):
    stored(agent, answer(tokens_in=3, details={"lang": "en"}))
    Trace.objects.update(reward_pending=False)
    report = stored(agent, answer(tool_calls=(ToolCall("find"),), tokens_in=5)).report
    trace = Trace.objects.get()
    assert figures(report.traces) == (1, 0, 1, 0, {})
    assert (trace.tokens_in, trace.details, len(trace.tool_calls)) == (5, {"lang": "en"}, 1)
    assert trace.reward_pending


def test_details_that_are_not_mentioned_stay_too(agent):
    stored(agent, answer(details={"decision": {"confidence": 0.9, "parts": {"a": 1}}, "lang": "en"}))
    later = answer(details={"decision": {"reward": 1.0, "parts": {"b": 2}}})
    assert stored(agent, later).report.traces.updated == 1
    decision = {"confidence": 0.9, "reward": 1.0, "parts": {"b": 2}}
    assert Trace.objects.get().details == {"decision": decision, "lang": "en"}
    assert stored(agent, later).report.traces.updated == 0


def test_of_ratings_of_one_moment_that_contradict_each_other_the_last_counts(agent):
    records = [answer(feedback=(thumb(0),)), answer(feedback=(thumb(1),)), answer(feedback=(thumb(0),))]
    assert figures(stored(agent, *records).report.feedback) == (3, 1, 0, 1, {imported_feedback.TAKEN_BACK: 1})
    assert figures(stored(agent, *records).report.feedback) == (3, 0, 0, 2, {imported_feedback.TAKEN_BACK: 1})
    assert Feedback.objects.get().value == 0


def test_ratings_of_one_moment_on_different_scales_contradict_each_other(agent):
    record = answer(feedback=(thumb(1), replace(thumb(1), scale="score")))
    rows = []
    for _ in range(3):
        skipped = stored(agent, record).report.feedback.skipped
        rows.append(Feedback.objects.count())
    assert (rows, skipped) == ([1, 1, 1], {imported_feedback.TAKEN_BACK: 1})
    assert Feedback.objects.get().scale == "score"


def test_of_ratings_that_contradict_each_other_in_two_parts_of_an_import_the_first_counts(agent, monkeypatch):
    monkeypatch.setattr(write, "CHUNK", 1)
    records = [answer(feedback=(thumb(value),)) for value in (1, 0, 1)]
    for imported in (1, 0):
        again = {imported_feedback.SAID_BEFORE: 1}
        assert figures(stored(agent, *records).report.feedback) == (3, imported, 0, 2 - imported, again)
    assert Feedback.objects.get().value == 1


def test_ratings_of_clocks_that_run_ahead_are_of_one_moment(agent):
    records = [
        answer(feedback=(thumb(1, rated_at=TIME.replace(year=2999)), thumb(0, rated_at=TIME.replace(year=2998))))
    ]
    for _ in range(3):
        stored(agent, *records)
        assert Feedback.objects.get().value == 0


def test_a_label_may_change_and_change_back_between_two_imports(agent):
    for value in (1, 0, 1):
        stored(agent, answer(feedback=(thumb(value),)))
        assert Feedback.objects.get(is_current=True).value == value


def test_other_words_under_the_same_id_are_refused_with_their_feedback(agent):
    stored(agent, answer())
    report = stored(agent, answer(response="Lost.", feedback=(thumb(),))).report
    assert report.traces.skipped == {OTHER_ANSWER: 1}
    assert report.feedback.skipped == {imported_feedback.NOT_TAKEN: 1}
    assert Trace.objects.get().response == "On its way."


def test_an_id_that_comes_twice_at_once_is_compared_with_itself(agent):
    report = stored(agent, answer(), answer(), answer(tokens_in=1), answer(response="Lost.")).report
    assert figures(report.traces) == (4, 1, 1, 1, {OTHER_ANSWER: 1})
    assert Trace.objects.get().tokens_in == 1


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"external_id": ""}, "external_id is empty"),
        ({"external_id": "x" * 201}, "external_id is longer"),
        ({"external_id": "a\x00"}, "external_id contains a NUL"),
        ({"response": ""}, "the answer is empty"),
        ({"response": "\ud800"}, "response contains half"),
        ({"question": "\x00"}, "prompt contains a NUL"),
        ({"tokens_in": 2**31}, "tokens_in must be"),
        ({"tokens_out": -1}, "tokens_out must be"),
        ({"llm_calls": 1.5}, "llm_calls must be"),
        ({"cost": float("nan")}, "cost must be"),
        ({"cost": -1.0}, "cost must be"),
        ({"state": [2**63]}, "state contains a whole number"),
        ({"details": {"x": float("inf")}}, "details contains a number"),
        ({"tool_calls": (ToolCall("x", result=["\x00"]),)}, "tool_calls contains a NUL"),
        ({"reasoning_steps": (ReasoningStep("x", insights=("\x00",)),)}, "reasoning_steps contains a NUL"),
        ({"occurred_at": datetime(2026, 1, 1)}, "occurred_at is not in UTC"),  # noqa: DTZ001
        ({"prompt_key": "k" * 201}, "prompt_key is longer"),
    ],
)
def test_what_the_database_cannot_hold_is_refused_with_its_field(agent, fields, reason):
    report = stored(agent, answer(**fields), answer("fine")).report
    assert [one.startswith(reason) for one in report.traces.skipped] == [True]
    assert Trace.objects.get().external_id == "fine"


def test_a_prompt_needs_messages_with_known_roles(agent):
    wrong = ImportedTrace(where="x", external_id="x", prompt=(Message(role="king", content="!"),), response="y")
    none = ImportedTrace(where="x", external_id="y", prompt=(), response="y")
    assert len(stored(agent, wrong, none).report.traces.skipped) == 2


def test_a_chunk_costs_a_handful_of_queries(agent):
    with CaptureQueriesContext(
        connection,
    ) as few:
        stored(agent, *(answer(f"a{n}", feedback=(thumb(),)) for n in range(100)))
    assert len(few) <= 16


def test_more_than_a_chunk_is_stored_in_several_transactions(agent, monkeypatch):
    monkeypatch.setattr(write, "CHUNK", 3)
    assert stored(agent, *(answer(f"a{n}") for n in range(8))).report.traces.imported == 8


def test_agents_that_records_name_are_made_once(db):
    report = stored(None, answer("a", agent="FILER"), answer("b", agent="filer"), answer("a", agent="STORER")).report
    assert sorted(Agent.objects.values_list("name", flat=True)) == ["FILER", "STORER"]
    assert report.traces.imported == 3


def test_a_record_without_an_agent_is_refused_unless_somebody_named_one(agent):
    assert stored(None, answer()).report.traces.skipped == {NO_AGENT: 1}
    assert stored(agent, answer()).report.traces.imported == 1


def test_an_impossible_name_is_refused_with_the_reason(db):
    report = stored(None, answer(agent="../up"), answer("b", agent="CON"), answer("c", agent="good")).report
    assert [agent.name for agent in Agent.objects.all()] == ["good"]
    assert sum(report.traces.skipped.values()) == 2
    assert "'../up'" in next(iter(report.traces.skipped))


def test_a_new_agent_is_saved_with_its_first_answer(db):
    new = Agent(name="fresh", pair_type="both")
    store = TraceStore("test", agent=new)
    store.take([Rejected("line 1", "is not JSON")])
    assert not Agent.objects.exists()
    store.take([answer(), answer("named", agent="Fresh")])
    assert (Agent.objects.get().pair_type, Trace.objects.count()) == ("both", 2)


def test_one_import_makes_a_bounded_number_of_agents(db):
    records = [answer(agent=f"agent-{n}") for n in range(MOST_NEW_AGENTS + 3)]
    assert stored(None, *records).report.traces.skipped == {TOO_MANY_AGENTS: 3}
    assert Agent.objects.count() == MOST_NEW_AGENTS


def test_a_version_is_found_by_name_and_an_unknown_one_is_kept(agent):
    version = ModelVersion.objects.create(agent=agent, name="v25", base_model="tiny", feedback_count=25)
    stored(agent, answer("a1", model_version="V25"), answer("a2", model_version="gpt-5"))
    known, unknown = Trace.objects.order_by("external_id")
    assert (known.model_version, known.details) == (version, {})
    assert (unknown.model_version, unknown.details) == (None, {"model_version": "gpt-5"})


def test_every_kind_of_feedback_is_stored(agent):
    left = answer(
        "left",
        feedback=(
            thumb(tags=("short",), notes="Good.", rated_at=TIME),
            ImportedFeedback(kind="correction", rater="user:anna", text="Here it is."),
            ImportedFeedback(kind="outcome", rater="system:shop", metric="returned", value=0),
            ImportedFeedback(kind="comparison", rater="user:anna", choice="left", other_external_id="right"),
        ),
    )
    report = stored(agent, answer("right", response="No idea."), left).report
    assert figures(report.feedback) == (4, 4, 0, 0, {})
    assert sorted(Feedback.objects.values_list("kind", flat=True)) == ["comparison", "correction", "outcome", "rating"]
    rating = Feedback.objects.get(kind="rating")
    assert (rating.value, rating.tags, rating.notes, rating.rated_at) == (1, ["short"], "Good.", TIME)
    assert Feedback.objects.get(kind="comparison").other_trace.external_id == "right"


def test_feedback_without_a_time_is_as_old_as_its_answer(agent):
    stored(agent, answer(occurred_at=TIME, feedback=(thumb(),)))
    assert Feedback.objects.get().rated_at == TIME


def test_the_other_answer_of_a_comparison_may_be_here_since_long(agent):
    stored(agent, answer("right", response="No idea."))
    picked = ImportedFeedback(kind="comparison", rater="user:anna", choice="left", other_external_id="right")
    lost = ImportedFeedback(kind="comparison", rater="user:anna", choice="left", other_external_id="nowhere")
    report = stored(agent, answer("left", feedback=(picked, lost))).report
    assert figures(report.feedback) == (2, 1, 0, 0, {imported_feedback.NO_OTHER: 1})


def test_feedback_that_cannot_be_is_refused_and_its_answer_stays(agent):
    wrong = (
        thumb(value=7),
        thumb(value=None),
        thumb(notes="\x00"),
        thumb(value=10**400),
        thumb(rated_at=datetime(2026, 1, 1)),  # noqa: DTZ001
        ImportedFeedback(kind="correction", rater="user:anna", text=""),
        ImportedFeedback(kind="outcome", rater="user:anna", metric="", value=1),
        ImportedFeedback(kind="rating", rater="", scale="thumb", value=1),
    )
    report = stored(agent, answer(feedback=wrong)).report
    assert (report.traces.imported, report.feedback.skipped.total(), Feedback.objects.count()) == (1, len(wrong), 0)


def test_an_older_rating_does_not_win(agent):
    stored(agent, answer(feedback=(thumb(1, rated_at=TIME),)))
    older = stored(agent, answer(feedback=(thumb(0, rated_at=TIME.replace(year=2025)),))).report
    assert older.feedback.skipped == {imported_feedback.OLDER: 1}
    newer = stored(agent, answer(feedback=(thumb(0, rated_at=TIME.replace(month=3)),))).report
    assert newer.feedback.updated == 1


@pytest.mark.parametrize("kind", ["rating", "outcome"])
def test_what_was_retracted_stays_so_when_it_is_imported_again(agent, kind):
    said = thumb() if kind == "rating" else ImportedFeedback(kind="outcome", rater="shop", metric="sold", value=1)
    record = answer(occurred_at=TIME, feedback=(said,))
    stored(agent, record)
    retract(Feedback.objects.get(), rater="bob", source="test")
    again = stored(agent, record).report
    assert (again.feedback.imported, again.feedback.unchanged) == (0, 1)
    assert not Feedback.objects.filter(is_current=True).exists()


def test_a_dry_run_counts_the_same_and_writes_nothing(agent):
    stored(agent, answer("old"), answer("grown"))
    records = [
        answer("old", feedback=(thumb(),)),
        answer("grown", tokens_in=1),
        answer("new", feedback=(thumb(), thumb(0))),
        answer("old", response="Lost."),
        answer("named", agent="other"),
        Rejected("line 6", "is not JSON"),
    ]
    before = list(Trace.objects.order_by("pk").values())
    rehearsed = stored(agent, *records, dry_run=True).report.as_dict()
    assert list(Trace.objects.order_by("pk").values()) == before
    assert (Feedback.objects.count(), Agent.objects.count()) == (0, 1)
    assert stored(agent, *records).report.as_dict() == rehearsed


def test_a_dry_run_remembers_what_it_saw_some_chunks_ago(agent, monkeypatch):
    monkeypatch.setattr(write, "CHUNK", 2)
    picked = ImportedFeedback(kind="comparison", rater="user:anna", choice="left", other_external_id="a0")
    records = [answer(f"a{n}", feedback=(thumb(),)) for n in range(4)]
    records += [
        answer("a0", feedback=(thumb(),)),
        answer("a1", tokens_in=7),
        answer("a2", response="Lost."),
        answer("b", feedback=(picked,)),
    ]
    rehearsed = stored(Agent(name="new"), *records, dry_run=True).report.as_dict()
    assert not Agent.objects.filter(name="new").exists()
    assert stored(Agent(name="new"), *records).report.as_dict() == rehearsed


@pytest.mark.django_db(transaction=True)
def test_two_imports_at_once_store_everything_once():
    records = [answer(f"a{n}", agent="crowd", feedback=(thumb(),)) for n in range(40)]
    problems: list[BaseException] = []

    def load(mine: list[ImportedTrace]) -> None:
        try:
            for at in range(0, len(mine), 10):
                TraceStore("test").take(mine[at : at + 10])
        except BaseException as error:
            problems.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=load, args=(part,)) for part in (records, records[::-1], records[5:])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert (Agent.objects.count(), Trace.objects.count(), Feedback.objects.count()) == (1, 40, 40)
