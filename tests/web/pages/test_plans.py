"""How SQLite would answer what the pages ask, had it the data of years: the tables are small here, and the figures by which
it plans are those of a million answers, three million ratings and a hundred agents."""

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from rl.models import Agent, Feedback, RatingQueue, Trace, TrainingRun
from tests.admin.records import make_loop

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "sqlite", reason="reads SQLite's query plans"),
]

ROWS = {"rl_trace": 1_000_000, "rl_feedback": 3_000_000}
DIFFERENT = {
    "id": 3_000_000,
    "trace_id": 1_000_000,
    "external_id": 1_000_000,
    "session_id": 100_000,
    "prompt_key": 250_000,
    "created_at": 30_000,
    "rater": 1_500,
    "reward": 4,
    "agent_id": 40,
    "training_set_id": 2,
    "kind": 5,
}
"""Column to how many values it has; others have one, or are empty."""
SEARCHES = (
    "",
    "?agent=support-chat",
    "?agent=support-chat&label=unlabelled",
    "?agent=support-chat&label=good",
    "?find=a",
)
LISTS = (
    "trace/",
    "trace/?q=a",
    "feedback/",
    "feedback/?is_current__exact=1&kind__exact=rating",
    "feedback/?q=device:7",
)
SCAN = re.compile(r"SCAN (\w+)(?! USING COVERING)")


@pytest.fixture
def loop(agent: Agent) -> Agent:
    make_loop(agent)
    return agent


@pytest.fixture
def large(loop: Agent) -> Agent:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        for table, rows in ROWS.items():
            cursor.execute("DELETE FROM sqlite_stat1 WHERE tbl = %s", [table])
            cursor.execute(f"SELECT name, partial FROM pragma_index_list('{table}')")
            for index, is_partial in cursor.fetchall():
                if not (is_partial and index != "feedback_current"):
                    cursor.execute(
                        "INSERT INTO sqlite_stat1 VALUES (%s, %s, %s)", [table, index, _figures(index, rows)]
                    )
        cursor.execute("ANALYZE sqlite_schema")  # it reads the figures again
    return loop


def _figures(index: str, rows: int) -> str:
    """Rows, and how many there are on average for the first column of the index, for the first two, and so on."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT name FROM pragma_index_info('{index}') ORDER BY seqno")
        columns = [name for (name,) in cursor.fetchall()]
    each, values = [], 1
    for column in columns:
        values = min(values * DIFFERENT.get(column, 1), rows)
        each.append(max(rows // values, 1))
    return " ".join(map(str, [rows, *each]))


def test_no_page_reads_a_large_table_from_end_to_end(staff: Client, large: Agent) -> None:
    trace, run, queue = Trace.objects.all()[0], TrainingRun.objects.get(), RatingQueue.objects.get()
    name, row = large.name, f"/rate/{large.name}/{queue.name}"
    pages = [
        "/",
        "/agents/",
        f"/agents/{name}/",
        "/try/",
        f"/try/{name}/",
        "/rate/",
        f"/rate/{name}/",
        f"{row}/raters/",
    ]
    pages += [
        f"{row}/settings/",
        "/rate/held-back/",
        "/runs/",
        f"/runs/{run.pk}/",
        "/experiments/",
        f"/traces/{trace.pk}/",
    ]
    pages += [*(f"/traces/{search}" for search in SEARCHES), f"/traces/of/{name}/", f"/traces/of/{name}/label/"]
    pages += [*(f"/admin/rl/{part}" for part in LISTS), f"/admin/rl/agent/{large.pk}/change/"]
    read = {page: scans for page in pages if (scans := _scans_of(staff, page))}
    assert read == {}


def test_a_statement_that_reads_all_is_seen(large: Agent) -> None:
    with CaptureQueriesContext(connection) as asked:
        list(Feedback.objects.filter(notes__contains="parcel").values("pk"))
        list(Feedback.objects.filter(trace__in=[Trace.objects.all()[0].pk]).values("pk").order_by())
    assert [bool(_plan_of(statement["sql"])) for statement in asked][0::2] == [True, False]


def _scans_of(staff: Client, page: str) -> list[str]:
    with CaptureQueriesContext(connection) as asked:
        assert staff.get(page, follow=True).status_code == 200
    return [scan for statement in asked for scan in _plan_of(statement["sql"])]


def _plan_of(statement: str) -> list[str]:
    """Where it reads a large table that has no end: a list ends at the length of its page."""
    if not statement.startswith("SELECT") or " LIMIT " in statement:
        return []
    aliases = {alias: table for table, alias in re.findall(r'"(rl_trace|rl_feedback)" (U\d|T\d|V\d)', statement)}
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
        plan = [row[3] for row in cursor.fetchall()]
    scans = [(line, match[1]) for line in plan if (match := SCAN.match(line))]
    return [f"{line}: {statement[:300]}" for line, table in scans if aliases.get(table, table) in ROWS]
