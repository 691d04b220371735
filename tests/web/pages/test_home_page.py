from datetime import UTC, date, datetime, timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern
from django.utils import timezone
from django_q.models import Success

from rl.models import Agent, ApiKey, Deployment, Evaluation, Experiment, Feedback, Trace, TrainingRun
from rl.trust import reading
from rl.web import dashboard_counts
from rl.web.urls import urlpatterns
from rl.web.version_figures import sentence
from tests.admin.records import make_evaluation, make_loop, make_run, make_training_set, make_version
from tests.conftest import make_trace

pytestmark = pytest.mark.database


def rate(trace: Trace, rater: str = "user:alice", **fields) -> Feedback:
    values = {"kind": "rating", "scale": "thumb", "raw_value": 1, "value": 1, **fields}
    return Feedback.objects.create(agent=trace.agent, trace=trace, rater=rater, **values)


def test_it_asks_the_anonymous_to_sign_in_and_brings_them_back(client: Client, db) -> None:
    answer = client.get("/")
    assert (answer.status_code, answer["Location"]) == (302, "/login/?next=/")


def test_a_rater_is_sent_to_the_rating_page(client: Client, alice) -> None:
    client.force_login(alice)
    assert client.get("/")["Location"] == "/rate/"


def test_a_stranger_is_refused_in_words(client: Client, charlie) -> None:
    client.force_login(charlie)
    answer = client.get("/")
    assert answer.status_code == 403
    assert "permission to rate" in answer.content.decode()


SEEN = {"view_trainingrun": "(dpo) failed", "view_deployment": "<h2>Served</h2>"}


@pytest.fixture
def dora(client: Client, agent: Agent) -> User:
    """Staff without any permission, signed in, beside a whole loop of the agent."""
    make_loop(agent)
    Experiment.objects.create(agent=agent, name="names-first", state="running")
    user = User.objects.create_user("dora", is_staff=True)
    client.force_login(user)
    return user


def test_staff_without_permissions_sees_nothing_of_agents(client: Client, dora) -> None:
    page = client.get("/")
    assert page.status_code == 403
    assert "permission to see agents" in page.content.decode()
    plain = [row for row in urlpatterns if isinstance(row, URLPattern) and not row.pattern.converters]
    addresses = [f"/{row.pattern}" for row in plain if row.name not in {"rate_by_invite", "logout"}]
    assert len(addresses) > 10
    for address in [*addresses, "/admin/"]:
        assert "support-chat" not in client.get(address).content.decode(), address


@pytest.mark.parametrize("permission", SEEN)
def test_staff_sees_the_kinds_of_records_that_it_may_see(client: Client, dora, permission: str) -> None:
    dora.user_permissions.set(Permission.objects.filter(codename__in=["view_agent", permission]))
    make_run(Agent.objects.get(), "failed")
    text = client.get("/").content.decode()
    assert {name for name, words in SEEN.items() if words in text} == {permission}
    assert "names-first" not in text


def test_an_empty_site_says_what_to_do_first(staff: Client) -> None:
    assert "Create an agent" in staff.get("/").content.decode()


@pytest.mark.parametrize(("has_trace", "advice"), [(False, "Next: answers to rate"), (True, "Next: ratings")])
def test_it_says_what_is_missing_next(staff: Client, agent: Agent, has_trace: bool, advice: str) -> None:
    if has_trace:
        make_trace(agent)
    assert advice in staff.get("/").content.decode()


def test_it_shows_what_can_be_trained_and_what_is_in_use(staff: Client, agent: Agent) -> None:
    run = make_loop(agent)
    Deployment.objects.update(alias="champion")
    rate(make_trace(agent))
    page = staff.get("/")
    row = page.context["agents"][0]
    assert (row.current, row.waiting, row.missing) == (2, 1, 99)
    assert (row.champion, row.evaluation.accuracy) == (run.version, 0.8)
    text = page.content.decode()
    assert "80 %" in text
    assert "base 50 %" in text


@pytest.mark.parametrize(
    ("site", "switch", "words"),
    [
        (True, True, "It retrains by itself"),
        (False, True, "Online learning is off: set ENABLE_ONLINE_LEARNING=1"),
        (True, False, "Online learning is off: switch it on for this agent in the admin"),
    ],
)
def test_it_says_whether_an_agent_retrains_by_itself(
    staff: Client, agent: Agent, settings, site: bool, switch: bool, words: str
) -> None:
    settings.ENABLE_ONLINE_LEARNING = site
    Agent.objects.update(online_learning=switch)
    assert words in staff.get("/").content.decode()


def test_where_nothing_is_served_it_names_the_command(staff: Client, agent: Agent) -> None:
    text = staff.get("/").content.decode()
    assert "python3 manage.py deploy_model --agent support-chat --version base --target llama_cpp" in text


def test_each_agent_leads_to_where_one_talks_to_it(staff: Client, agent: Agent) -> None:
    make_loop(agent)
    Deployment.objects.update(target="openai", url="http://127.0.0.1:9", alias="champion")
    Deployment.objects.create(agent=agent, target="openai", url="http://127.0.0.1:9")
    text = staff.get("/").content.decode()
    assert text.count('href="/try/support-chat/">Talk</a>') == 1
    assert "deploy_model" not in text


def test_names_of_agents_are_escaped(staff: Client) -> None:
    Agent.objects.create(name="<script>alert(1)")
    text = staff.get("/").content.decode()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_the_number_of_queries_does_not_grow_with_the_rows(staff: Client, django_assert_num_queries) -> None:
    def fill(number: int) -> None:
        agent = Agent.objects.create(name=f"agent-{number}")
        make_loop(agent, number)
        Deployment.objects.filter(agent=agent).update(alias="champion")

    fill(1)
    staff.get("/")
    fill(2)
    with CaptureQueriesContext(connection) as few:
        staff.get("/")
    count = len(few)
    for number in range(3, 13):
        fill(number)
    with django_assert_num_queries(count):
        staff.get("/")
    assert count == 18


# --- the figures ------------------------------------------------------------------------------------------------------


def test_days_without_ratings_are_there_and_retractions_are_not_counted(trace: Trace) -> None:
    rated = rate(trace)
    Feedback.objects.filter(pk=rated.pk).update(created_at=datetime(2026, 3, 10, 23, 59, 59, tzinfo=UTC))
    retraction = rate(trace, "user:bob", kind="retraction", retracts=rated)
    Feedback.objects.filter(pk=retraction.pk).update(created_at=datetime(2026, 3, 10, tzinfo=UTC))
    days = dashboard_counts.last_days(30, date(2026, 3, 11))
    assert (days[0], days[-1]) == (datetime(2026, 2, 10, tzinfo=UTC), datetime(2026, 3, 11, tzinfo=UTC))
    assert dashboard_counts.feedback_by_day(Feedback.objects.all(), days) == [*[0] * 28, 1, 0]


def test_older_days_are_left_out(trace: Trace) -> None:
    Feedback.objects.filter(pk=rate(trace).pk).update(created_at=datetime(2026, 2, 9, 23, 59, tzinfo=UTC))
    days = dashboard_counts.last_days(30, date(2026, 3, 11))
    assert sum(dashboard_counts.feedback_by_day(Feedback.objects.all(), days)) == 0


def test_superseded_and_retracted_events_wait_for_no_run(trace: Trace) -> None:
    rate(trace, is_current=False)
    rate(trace, kind="retraction")
    waiting = rate(trace)
    [row] = dashboard_counts.counted_agents([trace.agent_id])
    assert (row, row.current, row.waiting) == (trace.agent, 1, 1)
    Feedback.objects.filter(pk=waiting.pk).update(training_set=make_training_set(trace.agent))
    [row] = dashboard_counts.counted_agents([trace.agent_id])
    assert (row, row.current, row.waiting) == (trace.agent, 1, 0)


def test_a_version_shows_its_newest_evaluation(agent: Agent) -> None:
    version, training_set = make_version(agent), make_training_set(agent)
    make_evaluation(version, training_set, accuracy=0.4, verdict=Evaluation.Verdict.REJECT)
    make_evaluation(version, training_set, accuracy=0.9)
    [row], _ = dashboard_counts.agents_by_need()
    assert row.newest_evaluation is not None
    assert row.newest_evaluation.accuracy == 0.9


@pytest.mark.parametrize("measure", ["right", "reward", "success", "margins"])
def test_a_verdict_is_said_as_on_the_page_of_the_version_whatever_was_measured(
    staff: Client, agent: Agent, measure: str
) -> None:
    version = make_version(agent, "v1")
    Deployment.promote(version)
    evaluation = make_evaluation(version, make_training_set(agent))
    evidence = [{"kind": measure, "difference": {"value": 0.4, "low": 0.2, "high": 0.6}, "prompts": 24}]
    whole = {"measure": measure, "evidence": evidence, "decided_by": measure, "worst": [], "said": "Right in 9 of 10"}
    Evaluation.objects.filter(pk=evaluation.pk).update(report=whole)
    evaluation.refresh_from_db()
    (newest,) = dashboard_counts.newest_evaluations([version]).values()
    assert sentence(newest) == sentence(evaluation)
    assert staff.get("/").status_code == 200


def test_a_run_that_failed_says_why(staff: Client, agent: Agent) -> None:
    TrainingRun.objects.create(agent=agent, method="mpo", state="failed", error="the disk <b>is</b> full")
    assert "the disk &lt;b&gt;is&lt;/b&gt; full" in staff.get("/").content.decode()


FRESH = {"kind": "fresh", "share": {"value": 0.71, "low": 0.58, "high": 0.82}}


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("promote", ["v1 is better", "It wins 71 % of fresh answers against the base model (58 to 82 %).", "use v1"]),
        ("undecided", ["v1 is perhaps better", "compare answers: people's picks decide about v1"]),
        ("reject", ["v1 is rejected", "rate answers: 99 more ratings start a training"]),
    ],
)
def test_the_first_line_says_whether_it_got_better_and_what_is_next(
    staff: Client, agent: Agent, verdict: str, words: list[str]
) -> None:
    rate(make_trace(agent))
    evaluation = make_evaluation(make_version(agent, "v1"), make_training_set(agent), verdict=verdict)
    evaluation.report |= {"decided_by": "fresh", "evidence": [FRESH], "answers": "long " * 1000}
    evaluation.report |= {"duels": 30} if verdict == "undecided" else {}
    evaluation.save()
    text = " ".join(staff.get("/").content.decode().split())
    assert text.index("What needs somebody") < text.index("Ratings a day")
    assert [word for word in words if word not in text] == []


def test_what_is_next_without_a_version_is_said_too(staff: Client, agent: Agent) -> None:
    other = Agent.objects.create(name="other", min_samples_to_retrain=1)
    rate(make_trace(other))
    third = make_run(Agent.objects.create(name="third"), "running")
    make_trace(third.agent)
    text = " ".join(staff.get("/").content.decode().split())
    for words in (
        "still the base model",
        "send it answers",
        "train it: 1 rating waits",
        f"run {third.pk}</a> trains it",
    ):
        assert words in text


def test_the_most_urgent_agent_comes_first(staff: Client, agent: Agent) -> None:
    names = ("judge", "training", "serve", "failed", "rate")
    agents = {name: Agent.objects.create(name=f"needs-{name}") for name in names}
    for one in agents.values():
        make_trace(one)
    make_run(agents["training"], "running")
    make_run(agents["failed"], "failed")
    for name, verdict in (("judge", "undecided"), ("serve", "promote")):
        make_evaluation(make_version(agents[name]), make_training_set(agents[name]), verdict=verdict)
    page = staff.get("/")
    assert [row.agent.name for row in page.context["needed"]] == [
        "needs-failed",
        "needs-serve",
        "needs-judge",
        "needs-rate",
        "needs-training",
    ]
    assert [row.agent for row in page.context["idle"]] == [agent]


def test_an_agent_that_had_no_answer_for_a_week_is_folded(staff: Client, trace: Trace) -> None:
    assert len(staff.get("/").context["needed"]) == 1
    Trace.objects.update(created_at=timezone.now() - timedelta(days=8))
    page = staff.get("/")
    assert (page.context["needed"], len(page.context["idle"])) == ([], 1)
    assert "1 idle agent:" in page.content.decode()
    make_run(trace.agent, "failed")
    assert len(staff.get("/").context["needed"]) == 1


def test_a_failed_run_is_told_until_a_later_one_of_its_method_succeeds(staff: Client, agent: Agent) -> None:
    def told() -> list[int]:
        return [run.pk for row in staff.get("/").context["agents"] for run in row.failures]

    make_run(agent, "failed")
    again = make_run(agent, "failed")
    assert told() == [again.pk]
    make_run(agent, "cancelled")
    TrainingRun.objects.filter(pk=make_run(agent, "succeeded").pk).update(method="mpo")
    make_run(Agent.objects.create(name="other"), "succeeded")
    assert told() == [again.pk]
    make_run(agent, "succeeded")
    assert told() == []


def test_that_no_queue_has_run_is_said_before_a_run_waits_for_it(staff: Client, agent: Agent) -> None:
    assert "No queue has ever run here" in staff.get("/").content.decode()
    work = {"name": "x", "func": "rl.tasks.supervise_runs", "started": timezone.now(), "success": True}
    Success.objects.create(id="a", stopped=timezone.now() - timedelta(hours=1), **work)
    assert "The queue has done nothing since" in staff.get("/").content.decode()
    Success.objects.create(id="b", stopped=timezone.now(), **work)
    assert "ratchet-queue" not in staff.get("/").content.decode()


def test_many_agents_are_searched_and_come_in_pages(staff: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_counts, "AGENTS", 3)
    for number in range(5):
        Agent.objects.create(name=f"agent-{number}")
    make_run(Agent.objects.get(name="agent-4"), "failed")
    for address in ("/", "/agents/"):
        first, second, past = (staff.get(address, {"page": page}) for page in ("1", "2", "9"))
        shown = [[row.agent.name for row in page.context["agents"]] for page in (first, second)]
        assert shown == [["agent-4", "agent-0", "agent-1"], ["agent-2", "agent-3"]]
        assert 'href="?page=2"' in first.content.decode()
        assert 'href="?page=1"' in second.content.decode()
        assert "No agent here" in past.content.decode()
        found = staff.get(address, {"find": "T-3"})
        assert [row.agent.name for row in found.context["agents"]] == ["agent-3"]
        missed = staff.get(address, {"find": "<b>", "page": "x"}).content.decode()
        assert "“&lt;b&gt;” in its name" in missed
        assert "Start here" not in missed


def test_large_numbers_have_their_thousands_apart(staff: Client, trace: Trace) -> None:
    Agent.objects.update(min_samples_to_retrain=12000)
    assert "12,000 more ratings start a training" in staff.get("/").content.decode()


def plan_of(queryset) -> str:
    return queryset.explain()


@pytest.mark.skipif(connection.vendor != "sqlite", reason="reads SQLite's query plans")
def test_waiting_ratings_are_counted_from_their_partial_index(trace: Trace) -> None:
    with CaptureQueriesContext(connection) as queries:
        dashboard_counts.counted_agents([trace.agent_id])
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {queries[0]['sql']}")
        plan = " ".join(row[3] for row in cursor.fetchall())
    assert "feedback_current (agent_id=? AND training_set_id=?)" in plan
    assert "SCAN rl_feedback" not in plan


@pytest.mark.skipif(connection.vendor != "sqlite", reason="reads SQLite's query plans")
def test_ratings_per_day_read_the_last_days_only(trace: Trace) -> None:
    recent = Feedback.objects.filter(created_at__gte=datetime(2026, 1, 1, tzinfo=UTC)).order_by().values("kind")
    assert "SEARCH" in plan_of(recent)
    assert "feedback_newest" in plan_of(recent)


def test_it_exists_in_development_only(client: Client, db, settings) -> None:
    settings.DEBUG = False
    assert client.get("/demo/").status_code == 404
    settings.DEBUG = True
    assert client.get("/demo/").status_code == 200


@pytest.mark.database
def test_the_policy_lets_the_widget_come_from_and_talk_to_the_public_address(client: Client, db, settings) -> None:
    settings.DEBUG, settings.SITE_URL = True, "https://ratchet.example"
    policy = client.get("/demo/")["Content-Security-Policy"]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["script-src"] == "'self' https://ratchet.example"
    assert directives["connect-src"] == "https://ratchet.example"
    assert directives["default-src"] == "'none'"


@pytest.mark.parametrize("port", [8000, 8123])
def test_it_works_on_the_port_that_it_is_served_at(client: Client, db, settings, port: int) -> None:
    settings.DEBUG, settings.SITE_URL, settings.ALLOWED_HOSTS = True, "http://127.0.0.1:8000", ["localhost"]
    page = client.get("/demo/", headers={"host": f"localhost:{port}"})
    assert page.context["widget_url"] == f"http://127.0.0.1:{port}/static/rl/ratchet-feedback.js"
    assert f"connect-src http://127.0.0.1:{port};" in page["Content-Security-Policy"] + ";"


def test_it_shows_two_answers_to_one_prompt_as_a_pair(client: Client, agent: Agent, settings) -> None:
    settings.DEBUG = True
    assert client.get("/demo/").context["pair"] is None
    for text in ("same", "same", "different"):
        make_trace(agent, "Which?", text)
    pair = client.get("/demo/").context["pair"]
    assert {pair["answer"], pair["other_answer"]} == {"same", "different"}


def test_it_shows_the_three_newest_answers(client: Client, agent: Agent, settings) -> None:
    settings.DEBUG = True
    for number in range(4):
        make_trace(agent, f"question {number}", f"answer {number}")
    make_trace(agent, "unanswered", "")
    answers = client.get("/demo/").context["answers"]
    assert [row["answer"] for row in answers] == ["answer 3", "answer 2", "answer 1"]


@pytest.mark.database
def test_with_a_key_it_shows_what_the_key_may_rate(client: Client, agent: Agent, settings) -> None:
    settings.DEBUG = True
    make_trace(agent, response="ours")
    make_trace(Agent.objects.create(name="other"), response="of another agent")
    _, key = ApiKey.create(name="page", kind="publishable", agent=agent, allowed_origins=["http://localhost"])
    answers = client.get("/demo/", {"key": key}).context["answers"]
    assert [row["answer"] for row in answers] == ["ours"]


def test_more_ratings_than_a_page_counts_are_said_to_be_more(
    staff: Client, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard_counts, "COUNTED", 2)
    for number in range(3):
        rate(trace, f"user:{number}")
    Agent.objects.update(min_samples_to_retrain=2)
    [row], _ = dashboard_counts.agents_by_need()
    assert (row.counts, row.missing) == (["2+", "2+"], 0)
    Agent.objects.update(min_samples_to_retrain=5)
    [row], _ = dashboard_counts.agents_by_need()
    assert (row.waiting, row.missing) == (3, 2)
    assert "2+ ratings, 3+ of 5 for the next run" in staff.get("/").content.decode()


@pytest.mark.skipif(connection.vendor != "sqlite", reason="reads SQLite's query plans")
def test_picks_are_read_from_their_own_index(agent: Agent) -> None:
    assert "feedback_direct (agent_id=? AND kind=?)" in plan_of(reading._picks(agent, True, True))
