"""Who sees which page: a sign-in, the permission, and for most of them staff."""

from urllib.parse import unquote
from uuid import UUID

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from rl.models import Agent

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("data_dir")]
TRACE = UUID(int=7)
FOR_STAFF = {
    "view_experiment": "/experiments/ /experiments/1/ /experiments/1/look.json /experiments/versions/support-chat/",
    "view_quarantine": "/rate/held-back/",
    "view_feedback": "/rate/support-chat/answers/raters/",
    "view_trainingrun": "/runs/ /runs/compare/ /runs/1/ /runs/1/rows/ /runs/1/progress.json",
    "add_trainingrun": "/runs/new/ /runs/plan.json /runs/plan/rows/",
    "view_agent": "/agents/ /agents/support-chat/",
    "view_modelversion": "/versions/support-chat/v2/",
}
FOR_ALL = {
    "change_ratingqueue": "/rate/support-chat/+/settings/",
    "view_trace": f"/traces/ /traces/of/support-chat/ /traces/{TRACE}/",
    "view_trace add_feedback": "/traces/of/support-chat/label/",
    "add_feedback": "/try/ /try/support-chat/ /rate/",
    "view_evaluation": "/try/support-chat/before-and-after/",
}
PAGES = [(page, name) for name, pages in (FOR_STAFF | FOR_ALL).items() for page in pages.split()]


@pytest.mark.parametrize(("page", "permission"), PAGES)
def test_a_page_takes_a_sign_in_and_its_permission(client: Client, agent: Agent, page: str, permission: str) -> None:
    assert unquote(client.get(page)["Location"]) == f"/login/?next={page}"
    dora, eve = User.objects.create_user("dora", is_staff=True), User.objects.create_user("eve")
    client.force_login(dora)
    assert client.get(page).status_code == 403
    for user, is_refused in ((dora, False), (eve, permission in FOR_STAFF)):
        user.user_permissions.set(Permission.objects.filter(codename__in=permission.split()))
        client.force_login(user)
        assert (client.get(page).status_code == 403) is is_refused
