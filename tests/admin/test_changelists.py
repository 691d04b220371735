"""Every list and every record of the admin opens, for staff only, and costs the same for one row as for twelve."""

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext

from backend.admin_site import GROUPS
from rl.models import Agent, Artifact, Feedback, ModelVersion, Trace, TrainingRun, TrainingSet
from tests.admin.records import make_loop
from tests.conftest import make_trace

INNER = {"Arm", "Assignment", "PendingSpan", "RunPart", "Upload", "UploadPart"}
"""Rows that mean nothing outside their experiment, trace or run."""
_EVERY = sorted(apps.get_app_config("rl").get_models(), key=lambda model: model.__name__)
MODELS = [model for model in _EVERY if model.__name__ not in INNER]
APPEND_ONLY = [
    "feedback",
    "trace",
    "trainingset",
    "trainingrun",
    "metricpoint",
    "modelversion",
    "artifact",
    "evaluation",
    "labelmodel",
    "labelproposal",
    "trainingsettrace",
    "episode",
    "auditevent",
    "webhookdelivery",
    "claim",
    "answerpair",
]


def list_of(model: type[Model]) -> str:
    return f"/admin/rl/{model._meta.model_name}/"


def record_of(record: Model) -> str:
    return f"{list_of(type(record))}{record.pk}/change/"


def test_every_model_but_inner_ones_is_in_the_admin() -> None:
    assert {model.__name__ for model in _EVERY if not admin.site.is_registered(model)} == INNER


def test_the_records_are_listed_in_groups_and_each_once(staff: Client) -> None:
    apps_shown = staff.get("/admin/").context["app_list"]
    assert list(GROUPS) == [app["name"] for app in apps_shown if app["app_label"] == "rl"]
    names = [model["object_name"] for app in apps_shown if app["app_label"] == "rl" for model in app["models"]]
    assert sorted(names) == [model.__name__ for model in MODELS]


def test_a_group_of_which_somebody_may_see_nothing_is_left_out(client: Client, django_user_model) -> None:
    clerk = django_user_model.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.add(Permission.objects.get(codename="view_evaluation"))
    client.force_login(clerk)
    shown = client.get("/admin/").context["app_list"]
    assert [(app["name"], [model["object_name"] for model in app["models"]]) for app in shown] == [
        ("Versions", ["Evaluation"])
    ]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_list_costs_the_same_for_one_row_as_for_twelve(staff, agent, model, django_assert_num_queries) -> None:
    make_loop(agent, 1)
    staff.get(list_of(model))
    with CaptureQueriesContext(connection) as one:
        assert staff.get(list_of(model)).status_code == 200
    count = len(one)
    for number in range(2, 13):
        make_loop(Agent.objects.create(name=f"agent-{number}"), number)
    with django_assert_num_queries(count):
        page = staff.get(list_of(model))
    assert len(page.context["cl"].result_list) >= 12
    assert count <= 8


@pytest.mark.database
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_record_opens_and_can_be_searched(staff: Client, agent: Agent, model: type[Model]) -> None:
    make_loop(agent)
    record = model._default_manager.first()
    assert record is not None
    assert staff.get(f"{list_of(model)}{record.pk}/change/").status_code == 200
    for words in ("dpo", "0000", "7", "%'\"", "support-chat"):
        assert staff.get(list_of(model), {"q": words}).status_code == 200


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_strangers_and_raters_do_not_get_in(client: Client, alice, charlie, model: type[Model]) -> None:
    assert client.get(list_of(model)).status_code == 302
    for user in (alice, charlie):
        client.force_login(user)
        assert client.get(list_of(model)).status_code == 302


@pytest.mark.database
@pytest.mark.parametrize("name", APPEND_ONLY)
def test_records_of_what_happened_cannot_be_edited(staff: Client, agent: Agent, name: str) -> None:
    make_loop(agent)
    model = apps.get_model("rl", name)
    record = model._default_manager.first()
    assert staff.get(f"/admin/rl/{name}/add/").status_code == 403
    assert staff.post(f"/admin/rl/{name}/{record.pk}/change/", {"source": "changed"}).status_code == 403
    assert staff.post(f"/admin/rl/{name}/{record.pk}/delete/", {"post": "yes"}).status_code == 403
    assert model._default_manager.filter(pk=record.pk).exists()


def test_what_people_wrote_is_escaped(staff: Client, agent: Agent) -> None:
    trace = make_trace(agent, "<script>a</script>", "<script>b</script>", details={"<i>": "<script>c</script>"})
    for address in ("/admin/rl/trace/", f"/admin/rl/trace/{trace.pk}/change/"):
        assert "<script>a" not in staff.get(address).content.decode()
    page = staff.get(f"/admin/rl/trace/{trace.pk}/change/").content.decode()
    assert not [text for text in ("<script>b", "<script>c", "<i>") if text in page]


def test_the_index_links_to_the_site(staff: Client) -> None:
    text = staff.get("/admin/").content.decode()
    assert '<a href="/">Dashboard</a>' in text
    assert '<a href="/rate/">Rate answers</a>' in text
    assert "| Ratchet</title>" in text


@pytest.mark.database
def test_the_loop_can_be_walked_by_links(staff: Client, agent: Agent) -> None:
    run = make_loop(agent)
    version, trace, rows = run.version, agent.traces.get(model_version=run.version), run.training_set
    of_agent = [Trace, Feedback, TrainingSet, TrainingRun, ModelVersion]
    pages: dict[Model, list[str]] = {
        agent: [f"{list_of(model)}?agent__id__exact={agent.pk}" for model in of_agent],
        trace: [f"{list_of(Feedback)}?trace__id__exact={trace.pk}", record_of(version)],
        rows: [f"{list_of(TrainingRun)}?training_set__id__exact={rows.pk}"],
        run: [record_of(rows), record_of(version)],
        version: [
            f"{list_of(Artifact)}?version__id__exact={version.pk}",
            f"{list_of(Trace)}?model_version__id__exact={version.pk}",
            record_of(run),
        ],
    }
    for record, links in pages.items():
        text = staff.get(record_of(record)).content.decode()
        for link in links:
            assert f'href="{link}"' in text, (record, link)
            assert staff.get(link).status_code == 200


@pytest.mark.django_db
def test_a_long_list_is_counted_up_to_some_rows_and_says_that_there_are_more(
    staff: Client, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rl.admin.markup.MOST_LISTED", 3)
    for number in range(4):
        make_trace(agent, f"question {number}")
    assert "3+ traces" in words_of(staff)
    Trace.objects.filter(prompt__icontains="question 3").delete()
    assert "3 traces" in words_of(staff)


def words_of(staff: Client) -> str:
    return " ".join(staff.get("/admin/rl/trace/").content.decode().split())
