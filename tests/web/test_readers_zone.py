"""Times of pages are those of the reader's zone, which the browser's cookie names."""

from datetime import UTC, datetime

import pytest
from django.test import Client
from django.utils import timezone

from rl.models import Agent, Trace
from rl.web.middleware import ZONE
from tests.conftest import make_trace

MOMENT = datetime(2026, 1, 2, 20, 30, tzinfo=UTC)


@pytest.fixture
def old(agent: Agent) -> Trace:
    trace = make_trace(agent)
    Trace.objects.filter(pk=trace.pk).update(created_at=MOMENT)
    return trace


@pytest.mark.parametrize(
    ("zone", "time"),
    [("", "2026-01-02 20:30"), ("Asia/Tokyo", "2026-01-03 05:30"), ("America/New_York", "2026-01-02 15:30")],
)
def test_a_list_gives_the_readers_times(staff: Client, old: Trace, zone: str, time: str) -> None:
    staff.cookies[ZONE] = zone
    page = staff.get("/traces/").content.decode()
    assert time in page
    assert timezone.get_current_timezone_name() == "UTC", "the next request is another reader's"


def test_a_day_is_the_readers(staff: Client, old: Trace) -> None:
    staff.cookies[ZONE] = "Asia/Tokyo"
    assert staff.get("/traces/", {"since": "2026-01-03", "until": "2026-01-03"}).context["shown"].traces == [old]
    page = staff.get("/traces/", {"until": "2026-01-02"})
    assert page.context["shown"].traces == []
    assert "days are those of JST" in page.content.decode()


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "America", "/etc/localtime", "x" * 5000, "Ü\0"])
def test_what_names_no_zone_gives_utc(staff: Client, old: Trace, zone: str) -> None:
    staff.cookies[ZONE] = zone
    page = staff.get("/traces/")
    assert page.status_code == 200
    assert "2026-01-02 20:30" in page.content.decode()
