import csv
import json

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from rl.models import AuditEvent
from rl.operations.audit import Action, Caller, acting_for, record


@pytest.fixture
def staff(client: Client, bob: User) -> Client:
    client.force_login(bob)
    AuditEvent.objects.all().delete()
    return client


def exported(client: Client, form: str, query: str = "") -> str:
    answer = client.get(f"/admin/rl/auditevent/export.{form}{query}")
    assert answer.status_code == 200
    assert answer.streaming
    assert answer["Content-Disposition"] == f'attachment; filename="audit.{form}"'
    return b"".join(answer.streaming_content).decode()


@pytest.mark.database
def test_the_list_links_to_its_files_with_its_filters(staff: Client):
    page = staff.get("/admin/rl/auditevent/?action__exact=promoted").content.decode()
    for form in ("csv", "jsonl"):
        assert f'href="/admin/rl/auditevent/export.{form}?action__exact=promoted"' in page


@pytest.mark.database
def test_json_lines_hold_every_field(staff: Client):
    with acting_for(Caller("key:1 é", "203.0.113.7")):
        record(Action.PROMOTED, "version support-chat v40", before="base")
    first, second = map(json.loads, exported(staff, "jsonl").splitlines())
    assert first["target"] == "audit log"
    del second["at"]
    assert second == {
        "actor": "key:1 é",
        "action": "promoted",
        "target": "version support-chat v40",
        "agent": "",
        "address": "203.0.113.7",
        "request_id": "",
        "details": {"before": "base"},
    }


@pytest.mark.database
def test_only_what_the_filter_shows_is_exported(staff: Client):
    record(Action.PROMOTED, "this")
    record(Action.DELETED, "that")
    rows = list(csv.DictReader(exported(staff, "csv", "?action__exact=promoted&q=this").splitlines()))
    assert [row["target"] for row in rows] == ["this"]
    assert AuditEvent.objects.get(target="audit log").details["query"] == "action__exact=promoted&q=this"


@pytest.mark.database
@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_no_cell_is_a_formula(staff: Client, text: str):
    with acting_for(Caller(text)):
        record(Action.DELETED, text, **{text: text})
    rows = list(csv.reader(exported(staff, "csv", "?action__exact=deleted").splitlines(keepends=True)))
    assert not [cell for row in rows for cell in row if cell[:1] in tuple("=+-@\t\r\n")]
    assert rows[1][1].startswith("'")


def test_the_export_reads_piece_by_piece(staff: Client):
    AuditEvent.objects.bulk_create(AuditEvent(actor="x", action=Action.CHANGED, target=str(i)) for i in range(2500))
    assert exported(staff, "csv").count("\n") == 2502


def test_only_people_who_may_see_the_log_get_it(client: Client, charlie: User):
    charlie.is_staff = True
    charlie.save()
    client.force_login(charlie)
    assert client.get("/admin/rl/auditevent/export.csv").status_code == 403
    charlie.user_permissions.add(Permission.objects.get(codename="view_auditevent"))
    assert client.get("/admin/rl/auditevent/export.csv").status_code == 200
    client.logout()
    assert client.get("/admin/rl/auditevent/export.csv").status_code == 302
