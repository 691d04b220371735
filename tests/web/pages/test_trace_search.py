"""Looking for traces, and what is done with those that are picked."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from rl.collect.feedback import write
from rl.dataset_builder.read.follow_ups import read_reviews
from rl.models import Agent, Feedback, FollowUpLabel, LabelModel, LabelProposal, Trace, TrainingSetTrace
from rl.web import trace_lists
from tests.admin.records import make_training_set, make_version
from tests.conftest import make_trace

pytestmark = pytest.mark.database


HOSTILE = "<script>alert(1)</script>"
FULL = {
    "tool_calls": [
        {"tool_name": "track", "arguments": {"parcel": 7}, "result": "on its way", "success": True, "duration_ms": 12},
        {"tool_name": "refund", "arguments": {}, "result": None, "success": False, "error": f"no rights {HOSTILE}"},
    ],
    "reasoning_steps": [{"step_type": "plan", "content": "look it up", "confidence": 0.8, "insights": ["late"]}],
    "tasks": [{"task_id": "t1", "status": "completed", "description": "find the parcel", "result": "found"}],
    "rewards": {
        "tool_success": {"value": 0.5, "weight": 2.0, "reason": "1 of 2 tool calls succeeded"},
        "code_execution": {"value": None, "weight": 2.0, "reason": "no code in the answer"},
    },
    "reward": 0.5,
    "session_id": "chat-1",
    "tokens_in": 10,
    "tokens_out": 20,
}


def shown(client: Client, **filters: str) -> list[Trace]:
    return client.get("/traces/", filters).context["shown"].traces


def pick(client: Client, action: str, *traces: Trace, **fields: str):
    return client.post("/traces/picked/", {"action": action, "trace": [trace.pk for trace in traces], **fields})


@pytest.mark.parametrize("words", ["GRÖSSE", "größe", 'say "hi"', "back\\slash", "100%_", "zwei\nZeilen"])
def test_words_are_found_in_the_question_and_in_the_answer(staff: Client, agent: Agent, words: str) -> None:
    words = words if words != "GRÖSSE" else "GRö"  # SQLite knows the case of ASCII only
    asked = make_trace(agent, f"Which {words} is it?", "That one.")
    answered = make_trace(agent, "Which?", f"The {words}.")
    make_trace(agent, "Something else", "1000 other things")
    assert shown(staff, find=words.swapcase() if words.isascii() else words) == [answered, asked]
    assert shown(staff, find=words, agent="support-chat", label="good") == []


def test_days_versions_and_tags_narrow_the_list(staff: Client, agent: Agent) -> None:
    old, new = make_trace(agent, "old?"), make_trace(agent, "new?", model_version=make_version(agent, "v40"))
    Trace.objects.filter(pk=old.pk).update(created_at=datetime(2026, 1, 2, 23, 59, tzinfo=UTC))
    write.rate(old, rater="user:alice", scale="thumb", value=0, tags=["too long", "ü"], source="test")
    assert shown(staff, until="2026-01-02") == shown(staff, since="2026-01-02", until="2026-01-02") == [old]
    assert shown(staff, since="2026-01-03") == shown(staff, version="V40") == [new]
    assert shown(staff, tag="too long") == shown(staff, tag="ü") == [old]
    assert shown(staff, tag="long") == []
    assert shown(staff, tag="ü", label="bad") == [old]
    assert shown(staff, until="2026-01-02", label="unlabelled", agent="support-chat") == []


def test_a_day_that_is_not_one_is_told_and_left_out(staff: Client, trace: Trace) -> None:
    page = staff.get("/traces/", {"since": HOSTILE})
    assert page.context["shown"].traces == [trace]
    assert "is not a day such as 2026-05-31" in page.content.decode()
    assert HOSTILE not in page.content.decode()


def test_a_search_looks_through_the_newest_and_says_so(staff: Client, agent: Agent, monkeypatch) -> None:
    monkeypatch.setattr(trace_lists, "NEWEST", 3)
    traces = [make_trace(agent, f"same words {number}") for number in range(5)]
    for number, trace in enumerate(traces):
        Trace.objects.filter(pk=trace.pk).update(created_at=datetime(2026, 1, 1 + number, tzinfo=UTC))
    assert shown(staff, find="same words") == [traces[4], traces[3], traces[2]]
    assert shown(staff, find="same words", until="2026-01-02") == [traces[1], traces[0]]
    assert b"among the newest" in staff.get("/traces/", {"find": "same words"}).content


def test_pages_of_a_search_follow_each_other(staff: Client, agent: Agent) -> None:
    for number in range(60):
        make_trace(agent, f"words {number}")
    first = staff.get("/traces/", {"find": "words"}).context
    second = staff.get(f"/traces/?{first['older']}").context
    assert len({trace.pk for context in (first, second) for trace in context["shown"].traces}) == 60


def test_each_trace_shows_its_ratings(staff: Client, trace: Trace) -> None:
    for rater, value in (("user:alice", 1), ("user:bob", 1), ("user:charlie", 0)):
        write.rate(trace, rater=rater, scale="thumb", value=value, tags=[HOSTILE[:20]], source="test")
    write.correct(trace, text="Today.", rater="user:alice", source="test")
    page = staff.get("/traces/").content.decode()
    for words in ("2 good", "1 bad", "1 edited", "&lt;script&gt;"):
        assert words in page
    assert HOSTILE[:20] not in page


@pytest.mark.database
def test_a_side_by_side_pick_is_a_rating_of_both_answers(staff: Client, agent: Agent) -> None:
    better, worse, alone = (make_trace(agent, "Which?", text) for text in ("this one", "that one", "nobody's"))
    for left, right, choice in ((better, worse, "left"), (worse, better, "right"), (worse, better, "tie")):
        write.compare(left, right, choice=choice, rater=f"user:{choice}", source="test")
    page = staff.get("/traces/")
    rows = {trace: ratings for trace, ratings in page.context["rows"] if ratings}
    assert {trace: (row.picked, row.passed, row.between) for trace, row in rows.items()} == {
        better: (2, 0, 1),
        worse: (0, 2, 1),
    }
    assert "2 picked" in page.content.decode()
    assert shown(staff, agent="support-chat", label="unlabelled") == [alone]


def test_a_search_costs_the_same_for_three_traces_and_for_fifty(staff, agent, django_assert_max_num_queries) -> None:
    for number in range(50):
        write.rate(make_trace(agent, f"words {number}"), rater="a", scale="thumb", value=1, tags=["t"], source="test")
    with django_assert_max_num_queries(14):  # four of them limit the time, on PostgreSQL
        assert len(shown(staff, find="words", agent="support-chat", label="good", tag="t")) == 50


# --- those that are picked ---------------------------------------------------------------------------------------------


def test_picked_traces_are_trained_on_never_and_again(staff: Client, agent: Agent) -> None:
    mine, other = make_trace(agent, details={"topic": "bread"}), make_trace(agent)
    held_out = make_trace(agent, details={"split": "heldout"})
    answer = pick(staff, "never", mine, held_out, query="agent=support-chat")
    assert answer["Location"] == "/traces/?agent=support-chat"
    assert [trace.details for trace in (refresh(mine), refresh(other), refresh(held_out))] == [
        {"topic": "bread", "split": "never"},
        {},
        {"split": "heldout"},
    ]
    assert b"never trained on" in staff.get("/traces/").content
    pick(staff, "allow", mine, held_out)
    assert (refresh(mine).details, refresh(held_out).details) == ({"topic": "bread"}, {"split": "heldout"})


def refresh(trace: Trace) -> Trace:
    return Trace.objects.get(pk=trace.pk)


def test_picked_traces_are_downloaded_as_the_api_gives_them(staff: Client, agent: Agent, secret_key: str) -> None:
    mine, other = make_trace(agent, "größer?", "yes\nno"), make_trace(agent)
    write.rate(mine, rater="user:alice", scale="thumb", value=1, source="test")
    answer = pick(staff, "export", mine)
    assert answer["Content-Disposition"] == 'attachment; filename="traces.jsonl"'
    [line] = answer.content.decode().splitlines()
    api = staff.get(f"/api/v1/traces/{mine.pk}/", headers={"Authorization": f"Bearer {secret_key}"})
    assert {**json.loads(line), "feedback_count": 1} == api.json()
    assert str(other.pk) not in line


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"action": "never"}, "no trace is picked"),
        ({"action": "sing", "trace": "x"}, "unknown action"),
        ({"action": "never", "trace": ["x"]}, "has an id that is not one"),
        ({"action": "never", "trace": ["x"] * 51}, "50 is the most at once"),
    ],
)
def test_a_wrong_pick_is_refused(staff: Client, trace: Trace, form: dict, words: str) -> None:
    answer = staff.post("/traces/picked/", form)
    assert answer.status_code == 400
    assert words in answer.content.decode()
    assert refresh(trace).details == {}


def test_who_may_look_may_download_and_change_nothing(client: Client, charlie: User, trace: Trace) -> None:
    assert pick(client, "export", trace)["Location"].startswith("/login/")
    client.force_login(charlie)
    assert pick(client, "export", trace).status_code == 403
    charlie.user_permissions.add(Permission.objects.get(codename="view_trace"))
    client.force_login(User.objects.get(pk=charlie.pk))
    assert pick(client, "export", trace).status_code == 200
    assert pick(client, "never", trace).status_code == 403
    assert b"Never train on these" not in client.get("/traces/").content
    assert refresh(trace).details == {}


@pytest.fixture
def full(agent: Agent) -> Trace:
    return make_trace(agent, f"Where is it? {HOSTILE}", "On its way.", **FULL)


def address(trace: Trace) -> str:
    return reverse("trace", args=[trace.pk])


def test_who_may_look_may_not_label(client: Client, charlie: User, trace: Trace) -> None:
    charlie.user_permissions.add(Permission.objects.get(codename="view_trace"))
    client.force_login(charlie)
    page = client.get(address(trace))
    assert b"Your label" not in page.content
    assert client.post(address(trace), {"value": 1}).status_code == 403
    assert not Feedback.objects.exists()


@pytest.mark.database
def test_the_newest_come_first_and_every_trace_is_on_exactly_one_page(staff: Client, agent: Agent) -> None:
    moment = timezone.now()
    for number in range(120):
        make_trace(agent, f"question {number}")
    Trace.objects.update(created_at=moment)  # equal times must not lose or repeat a row
    Trace.objects.filter(prompt__0__content="question 7").update(created_at=moment + timedelta(seconds=1))
    seen: list[Trace] = []
    after = ""
    for _ in range(3):
        shown = trace_lists.newest(agent, "", after)
        seen += shown.traces
        after = shown.older
    assert after == ""
    assert seen[0].question == "question 7"
    assert len({trace.pk for trace in seen}) == len(seen) == 120
    page = staff.get("/traces/", {"agent": "support-chat"})
    assert page.context["shown"].older in page.content.decode().replace("%3A", ":").replace("%2B", "+")


@pytest.mark.database
def test_labels_filter_the_list(staff: Client, agent: Agent) -> None:
    liked, disliked, plain = (make_trace(agent, text) for text in ("liked?", "disliked?", "plain?"))
    for trace, value in ((liked, 1), (disliked, 0)):
        write.rate(trace, rater="user:alice", scale="thumb", value=value, source="test")
    write.rate(liked, rater="user:bob", scale="thumb", value=1, source="test")

    def shown(label: str) -> list[Trace]:
        return staff.get("/traces/", {"agent": "support-chat", "label": label}).context["shown"].traces

    assert (shown("good"), shown("bad"), shown("unlabelled")) == ([liked], [disliked], [plain])
    assert len(shown("no such label")) == 3


def test_what_nobody_labelled_is_looked_for_among_the_newest(
    staff: Client, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_lists, "NEWEST", 2)
    traces = [make_trace(agent, f"question {number}") for number in range(3)]
    page = staff.get("/traces/", {"agent": "support-chat", "label": "unlabelled"})
    assert page.context["shown"].traces == traces[:0:-1]
    assert "Looked for among the newest" in page.content.decode()


@pytest.mark.database
@pytest.mark.parametrize(
    "after",
    [
        "nonsense",
        "2026-01-01_x",
        "_",
        "2026-01-01T00:00:00_" + "0" * 32,
        "9" * 400,
        "0001-01-01T00:00:00+14:00_" + "0" * 32,
        "9999-12-31T23:59:59-14:00_" + "0" * 32,
    ],
)
def test_a_wrong_place_in_the_list_is_its_beginning(staff: Client, trace: Trace, after: str) -> None:
    for label in ("", "good"):
        assert staff.get("/traces/", {"after": after, "label": label}).status_code == 200


def test_a_trace_is_found_by_its_id_and_by_the_id_in_the_users_system(staff: Client, agent: Agent) -> None:
    trace = make_trace(agent, external_id="order-17")
    for text in (str(trace.pk), "order-17"):
        assert staff.get("/traces/", {"find": text})["Location"] == address(trace)
    page = staff.get("/traces/", {"find": HOSTILE})
    assert page.status_code == 200
    assert HOSTILE.encode() not in page.content


def test_an_agent_that_is_not_there_is_named(staff: Client, trace: Trace) -> None:
    page = staff.get("/traces/", {"agent": HOSTILE}).content.decode()
    assert "There is no agent named &lt;script&gt;" in page
    assert "There is no agent" not in staff.get("/traces/", {"agent": "Support-Chat"}).content.decode()


def test_the_list_shows_the_beginning_of_an_answer_and_counts_its_calls(staff: Client, agent: Agent) -> None:
    make_trace(agent, response="word " * 1000, tool_calls=[{"tool_name": "a"}] * 3)
    make_trace(agent, "Odd?", tool_calls={"tool_name": "no list"})
    [odd, long] = staff.get("/traces/").context["shown"].traces
    assert (len(long.answer), long.calls, odd.calls or 0) == (trace_lists.SHOWN, 3, 0)
    assert long.get_deferred_fields() >= {"response", "tool_calls"}


def test_the_list_costs_the_same_for_three_traces_and_for_fifty(staff, agent, django_assert_max_num_queries) -> None:
    for number in range(50):
        make_trace(agent, f"question {number}")
    with django_assert_max_num_queries(7):
        staff.get("/traces/", {"agent": "support-chat"})


def test_it_shows_all_that_happened(staff: Client, agent: Agent, full: Trace) -> None:
    other = make_trace(agent, "And now?", session_id="chat-1")
    used_by = make_training_set(agent)
    TrainingSetTrace.objects.create(training_set=used_by, trace=full)
    model = LabelModel.objects.create(
        agent=agent, labels=80, heldout_labels=20, heldout_accuracy=0.9, majority_share=0.6
    )
    LabelProposal.objects.create(trace=full, label_model=model, good=False, confidence=0.91)
    write.rate(full, rater="user:alice", scale="stars", value=4, tags=["clear"], notes=HOSTILE, source="test")
    write.outcome(full, metric="delivered", value=1, rater="system:shop", source="test")
    write.correct(full, text="It arrives today.", rater="user:alice", source="test")
    page = staff.get(address(full)).content.decode()
    for text in (
        "track",
        "on its way",
        "refund",
        "no rights",
        "look it up",
        "find the parcel",
        "1 of 2 tool calls succeeded",
        "does not apply",
        "no code in the answer",
        "user:alice",
        "stars (1 to 5): 4",
        "delivered: 1",
        "It arrives today.",
        "proposed label: bad",
        str(used_by),
        address(other),
        "computed again",
    ):
        assert text in page, text
    assert HOSTILE not in page


def test_what_is_too_long_to_read_is_cut_until_somebody_asks_for_all(staff: Client, agent: Agent) -> None:
    call = {"tool_name": "search", "arguments": {"text": "a" * 50_000}, "success": True}
    long = make_trace(agent, "q" * 50_000, "r" * 50_000, tool_calls=[call] * 300)
    page = staff.get(address(long)).content.decode()
    assert len(page) < 1_100_000
    assert "(40,000 more characters)" in page
    assert "300" in page
    assert "show everything" in page
    assert '<textarea id="text"' not in page  # editing what is cut would cut the answer
    whole = staff.get(address(long), {"whole": ""}).content.decode()
    assert "more characters" not in whole
    assert whole.count("<code>search</code>") == 300
    assert "r" * 50_000 + "</textarea>" in whole


def test_stored_oddities_do_not_break_the_page(staff: Client, agent: Agent) -> None:
    odd = make_trace(
        agent,
        tool_calls=["text", {"no": "name"}, {"name": "old", "error": "x"}],
        reasoning_steps=[None],
        tasks=[{}, 3],
        rewards={"a": 3, "b": {"value": None}, "c": {"value": 0.3}},
        details={"deep": [[[1]]]},
        state=False,
        action=0,
    )
    page = staff.get(address(odd))
    assert page.status_code == 200
    assert b"old" in page.content


def test_a_label_a_new_label_and_taking_it_back(staff: Client, trace: Trace) -> None:
    assert staff.post(address(trace), {"value": "1", "tags": "wrong", "notes": "hm"}).status_code == 302
    staff.post(address(trace), {"value": "0"})
    current = Feedback.objects.get(is_current=True)
    assert (current.value, current.rater, current.source) == (0.0, "user:bob", "trace_page")
    assert b"You said" in staff.get(address(trace)).content
    staff.post(address(trace), {"action": "retract"})
    assert not Feedback.objects.filter(is_current=True).exists()
    assert staff.post(address(trace), {"action": "retract"}).status_code == 400


def test_an_edited_answer_is_a_correction(staff: Client, trace: Trace) -> None:
    staff.post(address(trace), {"action": "correct", "text": "Your parcel\r\narrives today."})
    assert Feedback.objects.get(kind="correction").text == "Your parcel\narrives today."
    same = staff.post(address(trace), {"action": "correct", "text": trace.response})
    assert same.status_code == 400
    assert b"must differ from the answer" in same.content


def test_line_ends_alone_are_no_edit(staff: Client, agent: Agent) -> None:
    trace = make_trace(agent, response="One\r\ntwo\rthree")
    assert staff.post(address(trace), {"action": "correct", "text": "One\r\ntwo\r\nthree"}).status_code == 400
    assert not Feedback.objects.exists()


@pytest.mark.database
def test_people_take_back_their_own_edited_answers_only(staff: Client, trace: Trace) -> None:
    staff.post(address(trace), {"action": "correct", "text": "Today."})
    mine = Feedback.objects.get()
    other = write.correct(trace, text="On Friday.", rater="user:alice", source="test").event
    assert staff.get(address(trace)).content.decode().count("Take it back") == 1
    assert staff.post(address(trace), {"action": "retract", "event": other.pk}).status_code == 400
    assert staff.post(address(trace), {"action": "retract", "event": mine.pk}).status_code == 302
    assert list(Feedback.objects.filter(is_current=True)) == [other]


@pytest.mark.parametrize("form", [{"value": "7"}, {}, {"value": "1", "tags": "made up"}, {"action": "sing"}])
def test_a_wrong_form_is_refused_and_nothing_is_stored(staff: Client, trace: Trace, form: dict[str, str]) -> None:
    assert staff.post(address(trace), form).status_code == 400
    assert not Feedback.objects.exists()


def test_the_statistics_count_tools_and_rewards(staff: Client, full: Trace) -> None:
    page = staff.get("/traces/of/support-chat/")
    assert page.context["rewards"] == [{"name": "tool_success", "count": 1, "percent": 50}]
    assert page.context["tools"] == [
        {"name": "track", "count": 1, "percent": 100},
        {"name": "refund", "count": 1, "percent": 0},
    ]
    assert b"traces" in page.content
    assert staff.get("/traces/of/nobody/").status_code == 404


def hear(agent: Agent, number: int, good: bool, message: str, confidence: float = 0.81) -> Trace:
    model, _ = LabelModel.objects.get_or_create(
        agent=agent,
        reads=LabelModel.Reads.FOLLOW_UP,
        defaults={"labels": 60, "heldout_labels": 60, "heldout_accuracy": 0.8, "majority_share": 0.5},
    )
    trace, later = make_trace(agent, f"Heard {number}?", "A."), make_trace(agent, message)
    FollowUpLabel.objects.create(trace=trace, next_trace=later, label_model=model, good=good, confidence=confidence)
    return trace


def test_people_look_at_what_was_heard_in_next_messages_one_after_the_other(staff: Client, agent: Agent) -> None:
    first, second = (hear(agent, number, good, "<b>No</b>, shorter!") for number, good in ((0, True), (1, False)))
    make_trace(agent, "Unheard?")
    unsure = hear(agent, 2, good=False, message="And the other one?", confidence=0.59)
    assert shown(staff, agent=agent.name, label="follow_up") == [second, first]
    assert shown(staff, agent=agent.name, label="follow_up", find="Heard 0") == [first]
    assert "And the other one?" not in staff.get(address(unsure)).content.decode()
    page = staff.get(address(second)).content.decode()
    assert "&lt;b&gt;No&lt;/b&gt;, shorter!" in page
    assert "confidence 0.81" in page
    assert "Yes, so it was" in page
    answer = staff.post(address(second), {"action": "follow_up", "value": "0"})
    assert answer.url == address(first)
    assert staff.post(address(first), {"action": "follow_up", "value": "0"}).url == address(first)
    ratings = Feedback.objects.filter(source="follow_up").order_by("pk").values_list("trace", "value", "rater")
    assert list(ratings) == [(second.pk, 0.0, "user:bob"), (first.pk, 0.0, "user:bob")]
    reviews = read_reviews(agent)
    assert (reviews.agreed, reviews.seen) == (1, 2)
    assert "Yes, so it was" not in staff.get(address(second)).content.decode()
